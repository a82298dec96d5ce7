#pragma once
// The operations of the ledger that count jobs. ledger.hpp says what holds for all operations.
// Thread safety: plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "schemas/messages.hpp"

namespace millrace::broker {

struct Count {  // counts the jobs of a batch, or of the tenant where batch is empty
  std::string tenant, batch;
  // The reply also has `oldest_us`, `batches` and `waiting` of the tenant.
  bool at_length = false;
  bool queue = false;  // the reply also has `oldest_us` and `queued_tokens`, both of the tenant
};
// What waits for a model ("*": any) that an engine could take now, suspects included. Of many jobs
// the cost is estimated: by those that come first in each queue, costed_jobs of them.
inline constexpr std::size_t costed_jobs = 64;
struct ModelQueue {
  std::string model;
  std::uint64_t jobs = 0, cost_tokens = 0;
  friend bool operator==(const ModelQueue&, const ModelQueue&) = default;
};
// Batches by state; one that is paused and has not finished counts as paused alone. Of more than
// counted_batches only the first by name are counted.
inline constexpr std::uint64_t counted_batches = 10'000;
struct BatchCounts {
  std::uint64_t open = 0, closed = 0, paused = 0, finished = 0;
  friend bool operator==(const BatchCounts&, const BatchCounts&) = default;
};
struct SuspectQueue {          // suspects that wait for the same model and KV policy
  std::string model, kv;       // as in SubmitJob
  bool alone = false;          // each of them has to run alone
  std::uint64_t jobs = 0;      // at least one
  std::int64_t oldest_us = 0;  // when the first of them became a suspect
};
struct CountReply {
  JobCounts counts;
  std::vector<SuspectQueue> suspects;  // of the tenant, sorted by model, policy and `alone`
  bool paused = false;                 // the tenant, or the batch
  std::vector<std::string> paused_models{};
  // When the job that waits longest was submitted, of those that are ready (ClaimReply).
  std::optional<std::int64_t> oldest_us{};
  BatchCounts batches{};
  // About how much the tenant's queued jobs cost. Exact where each queue of its ready jobs has no
  // more than costed_jobs and all jobs are ready; the others are taken to cost as much as those.
  // 0: none is ready.
  std::uint64_t queued_tokens = 0;
  std::vector<ModelQueue> waiting{};  // sorted by model
};

// Lists all tenants that have a job or a stream, in order, with what their queues hold.
struct ListTenants {};
struct TenantInfo {
  std::string tenant;
  std::uint64_t ready = 0;             // jobs, as in ClaimReply
  std::vector<SuspectQueue> suspects;  // that are not paused
};
struct ListTenantsReply {
  std::vector<TenantInfo> tenants;
};

}  // namespace millrace::broker
