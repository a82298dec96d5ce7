// The rules of counts: jobs by state, the job that waits longest, batches, tenants.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <optional>
#include <tuple>

#include "broker/ledger/ledger_rules.hpp"

namespace millrace::broker {
namespace {

// When the first job of a queue was submitted. Within a priority a queue is in the order of
// submission, so the first of each priority is enough.
std::optional<std::int64_t> oldest_in(Records& records, const QueueKey& queue) {
  std::optional<QueuedJob> oldest;
  for (std::optional<Place> after;;) {
    auto first = records.queued_jobs(queue, after, 1);
    if (first.empty()) break;
    after = Place{first[0].place.first, std::uint64_t{INT64_MAX}};
    if (!oldest || first[0].place.second < oldest->place.second) oldest = std::move(first[0]);
  }
  if (!oldest) return {};
  const auto job = records.find_job(queue.tenant, oldest->job);
  return job ? std::optional(job->submitted_us) : std::nullopt;
}

BatchCounts count_batches(Records& records, const std::string& tenant) {
  BatchCounts counts;
  for (const BatchRecord& batch : records.list_batches(tenant, "", counted_batches)) {
    if (batch.finished_us) {
      ++counts.finished;
    } else if (batch.paused) {
      ++counts.paused;
    } else {
      ++(batch.closed ? counts.closed : counts.open);
    }
  }
  return counts;
}

}  // namespace

std::vector<SuspectQueue> LedgerRules::suspects_of(const std::string& tenant, bool paused_too) {
  const auto& pauses = transitions_.pauses_of(tenant);
  std::vector<SuspectQueue> out;
  for (QueuedSuspects& one : records_.suspect_queues(tenant)) {
    const SuspectQueue& own = one.queue;
    const bool paused = pauses.contains("") || pauses.contains(own.model) ||
                        transitions_.is_paused(tenant, one.batch);
    if (paused && !paused_too) continue;
    if (out.empty() || std::tie(out.back().model, out.back().kv, out.back().alone) !=
                           std::tie(own.model, own.kv, own.alone)) {
      out.push_back(std::move(one.queue));
      continue;
    }
    out.back().jobs += own.jobs;
    out.back().oldest_us = std::min(out.back().oldest_us, own.oldest_us);
  }
  return out;
}

std::optional<std::int64_t> LedgerRules::oldest_ready(const std::string& tenant) {
  const auto& pauses = transitions_.pauses_of(tenant);
  if (pauses.contains("")) return {};
  std::optional<std::int64_t> oldest;
  for (const ReadyJobs& ready : records_.ready(tenant, "")) {
    if (ready.jobs <= 0 || pauses.contains(ready.model)) continue;
    const auto first = oldest_in(records_, {tenant, 0, ready.model, ready.kv});
    if (first && (!oldest || *first < *oldest)) oldest = first;
  }
  return oldest;
}

std::uint64_t LedgerRules::queued_tokens(const std::string& tenant, std::uint64_t queued) {
  const auto queues = records_.ready(tenant, "");
  const std::uint64_t each =
      std::max<std::uint64_t>(1, costs_looked_at / std::max<std::size_t>(1, queues.size()));
  double tokens = 0, ready = 0;
  for (const ReadyJobs& queue : queues) {
    const auto first = records_.queued_jobs({tenant, 0, queue.model, queue.kv}, {}, each);
    double cost = 0;
    for (const QueuedJob& one : first) {
      const auto job = records_.find_job(tenant, one.job);
      cost += job ? static_cast<double>(job->cost_tokens) : 0;
    }
    if (first.empty() || queue.jobs <= 0) continue;
    const auto jobs = static_cast<double>(queue.jobs);
    tokens += cost * jobs / static_cast<double>(first.size());
    ready += jobs;
  }
  if (ready <= 0) return 0;
  return static_cast<std::uint64_t>(std::llround(tokens * static_cast<double>(queued) / ready));
}

Result<Reply> LedgerRules::carry_out(const Count& op) {
  transitions_.flush();
  const StateCounts c = records_.counts(op.tenant, op.batch);
  const auto jobs = [&](JobState state) {
    return static_cast<std::uint64_t>(c[static_cast<std::size_t>(state)]);
  };
  CountReply reply;
  reply.counts = {jobs(JobState::queued), jobs(JobState::leased),    jobs(JobState::completed),
                  jobs(JobState::failed), jobs(JobState::cancelled), jobs(JobState::expired)};
  reply.suspects = suspects_of(op.tenant, true);
  const auto& pauses = transitions_.pauses_of(op.tenant);
  reply.paused = pauses.contains("") || transitions_.is_paused(op.tenant, op.batch);
  std::ranges::copy_if(pauses, std::back_inserter(reply.paused_models),
                       [](const std::string& model) { return !model.empty(); });
  if (op.at_length || op.queue) reply.oldest_us = oldest_ready(op.tenant);
  if (op.at_length) reply.batches = count_batches(records_, op.tenant);
  if (op.queue) {
    const StateCounts all = op.batch.empty() ? c : records_.counts(op.tenant, "");
    const auto queued = all[static_cast<std::size_t>(JobState::queued)];
    reply.queued_tokens = queued_tokens(op.tenant, static_cast<std::uint64_t>(queued));
  }
  return reply;
}

Result<Reply> LedgerRules::carry_out(const ListTenants&) {
  transitions_.flush();
  ListTenantsReply reply;
  for (auto tenant = records_.next_tenant(""); tenant; tenant = records_.next_tenant(*tenant)) {
    reply.tenants.push_back({*tenant, transitions_.ready_of(*tenant), suspects_of(*tenant, false)});
  }
  return reply;
}

}  // namespace millrace::broker
