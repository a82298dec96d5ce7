#pragma once
// The operations that hand out jobs, and the jobs that they hand out. ledger.hpp has their reply.
// Thread safety: plain values.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "broker/ledger/held_prefixes.hpp"
#include "schemas/codec.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

// Which queue a claim is served from. Suspects are handed out in groups that narrow down which of
// them ends engines (see GiveBack): those suspected with the fewest others come first.
enum class ClaimFrom : std::uint8_t {
  jobs,      // jobs that nobody suspects
  suspects,  // the next group of suspects
  groups,    // the next group that may share an engine with other jobs
};
// The most suspects that may run together, of jobs that were suspected `among` so many, themselves
// included: half of them. One that is left has to run alone.
constexpr std::uint32_t suspects_together(std::uint32_t among) {
  return among < 2 ? 1 : among / 2;
}
inline constexpr std::uint32_t smallest_group = 4;  // the half of fewer is one job
constexpr bool runs_alone(std::uint32_t among) {
  return among < smallest_group;
}

// Hands out queued jobs of model `model` or "*" that want no KV policy or one of `kv`: lowest
// priority number first, then in order of submission, except that jobs whose prompts begin alike
// go to an engine that holds this beginning, within bounds (claim_order.hpp). A claim of suspects
// keeps the order, and hands out jobs of one
// incident only. Jobs past their deadline are skipped (see ExpireJobs). It ends with the job whose
// cost makes the sum reach max_tokens, and where the tenant has max_leased jobs leased. Jobs that
// are paused are not handed out; those of a paused batch are set aside (see Pause), at most so many
// in a claim:
inline constexpr std::size_t claim_set_aside = 1000;
inline constexpr std::uint64_t any_tokens = UINT64_MAX;
struct Claim {
  std::string tenant, engine, model;
  std::uint32_t max_jobs = 0;
  std::int64_t until_us = 0;  // lease end, Unix time
  ClaimFrom from = ClaimFrom::jobs;
  std::uint64_t max_bytes = limits::lease_bytes;  // of bodies; the first job may exceed it
  std::vector<std::string> kv{};                  // canonical names, each once
  std::uint64_t max_tokens = any_tokens;
  std::uint32_t max_leased = 0;  // of the tenant, by all engines; 0: no limit
  HeldPrefixes prefixes{};
  // Where at most so many jobs are left of a closed batch or of the tenant, those that cost most
  // come first (tails.hpp); 0: never.
  std::uint32_t tail_jobs = 0;
  // Whether it may use the queues of its model and of "*". The rules close those that are paused.
  bool from_model = true, from_any = true;
};
// What a tenant may take in its turns of a claim.
struct TenantShare {
  std::string tenant;
  std::int64_t deficit_tokens = 0;  // left of its turn, or taken too much in the turn before
  std::int64_t quantum_tokens = 1;  // each of its turns adds this much; at least 1
  std::uint32_t max_leased = 0;     // as in Claim
};
// A claim for several tenants, by weighted deficit round robin: `shares` stand in place of `tenant`
// and the limits of one tenant. The first one begins its turn, or goes on with it. A turn ends with
// the job that uses up its tokens, and what this job costs beyond them counts in the tenant's next
// turn. A tenant without jobs for the claim has no turn.
struct ClaimShared : Claim {
  std::vector<TenantShare> shares{};
  bool goes_on = false;  // the first one's turn has begun
};
struct ClaimedJob {
  LeaseId lease = 0;  // never used before in this ledger
  std::string tenant, job;
  std::uint32_t attempt = 1;  // hand-outs, this one included; stored with the claim
  std::int64_t submitted_us = 0;
  std::optional<std::int64_t> deadline_us;
  bool suspect = false;
  bool alone = false;  // the engine may run nothing else meanwhile
  Body body;
  std::string custom_id{}, stream{};
  std::uint64_t cost_tokens = 1;
  std::uint64_t prefix = 0;  // as in SubmitJob
};
struct TakenShare {
  std::uint64_t tokens = 0;
  std::int64_t turns = 0;   // that it began
  bool exhausted = false;   // the tenant has no more jobs that the claim may have
  bool at_limit = false;    // as in ClaimReply
  std::uint64_t ready = 0;  // as in ClaimReply
};

}  // namespace millrace::broker
