#pragma once
// The operations of the ledger that pause and resume jobs. What is paused keeps its order and its
// deadlines; claims do not hand it out, and leases that run end as ever. Three
// things can be paused, and none knows of the others: a batch, the queue of the jobs that name one
// model, and all jobs of a tenant. ledger.hpp says what holds for all operations.
//
// A pause is one row, however many jobs it concerns. A claim sets the jobs of a paused batch aside
// as it meets them, so that they delay no others again. A resumption queues them again in their old
// places, a step at a time: what the steps of this operation leave is done by StartJobs.
// Thread safety: plain values.
#include <cstdint>
#include <string>

#include "schemas/messages.hpp"

namespace millrace::broker {

// What keeps a queued job from being handed out; the widest where there are several.
enum class PausedBy : std::uint8_t { nothing, tenant, model, batch };

// Refused: not_found (no job belongs to the batch). The caller checks that exactly one thing is
// named, and that the model is known.
struct Pause {
  std::string tenant, batch, model;  // neither batch nor model: the tenant
};
struct Resume {
  std::string tenant, batch, model;
  std::uint32_t max_jobs = 1000;  // that are queued again in this step
};
struct PauseReply {
  bool changed = false;     // false: it was so before
  bool more = false;        // jobs of the batch are to be queued again: StartJobs does it
  std::uint64_t ready = 0;  // jobs that the tenant has now, as in ClaimReply
};

}  // namespace millrace::broker
