// The rules of counts: jobs by state, the job that waits longest, batches, tenants.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <map>
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

// What `jobs` jobs cost of which these come first.
std::uint64_t cost_of(Records& records, const QueueKey& queue, std::uint64_t jobs) {
  std::uint64_t sum = 0, found = 0;
  for (const QueuedJob& first : records.queued_jobs(queue, {}, costed_jobs)) {
    const auto job = records.find_job(queue.tenant, first.job);
    if (!job) continue;
    sum += job->cost_tokens;
    ++found;
  }
  if (found == 0) return jobs;
  const double mean = static_cast<double>(sum) / static_cast<double>(found);
  return static_cast<std::uint64_t>(std::llround(mean * static_cast<double>(jobs)));
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
  std::uint64_t tokens = 0, ready = 0;
  for (const ReadyJobs& queue : records_.ready(tenant, "")) {
    if (queue.jobs <= 0) continue;
    const auto jobs = static_cast<std::uint64_t>(queue.jobs);
    tokens += cost_of(records_, {tenant, 0, queue.model, queue.kv}, jobs);
    ready += jobs;
  }
  if (ready == 0) return 0;
  const double each = static_cast<double>(tokens) / static_cast<double>(ready);
  return static_cast<std::uint64_t>(std::llround(each * static_cast<double>(queued)));
}

std::vector<ModelQueue> LedgerRules::waiting_of(const std::string& tenant) {
  const auto& pauses = transitions_.pauses_of(tenant);
  if (pauses.contains("")) return {};
  std::map<std::string, ModelQueue> models;
  for (const ReadyJobs& ready : records_.ready(tenant, "")) {
    if (ready.jobs <= 0 || pauses.contains(ready.model)) continue;
    const auto jobs = static_cast<std::uint64_t>(ready.jobs);
    ModelQueue& queue = models[ready.model];
    queue.jobs += jobs;
    queue.cost_tokens += cost_of(records_, {tenant, 0, ready.model, ready.kv}, jobs);
  }
  // A suspect costs what the others for its model do, or one token if there are none.
  for (const SuspectQueue& suspects : suspects_of(tenant, false)) {
    ModelQueue& queue = models[suspects.model];
    const std::uint64_t each = queue.jobs == 0 ? 1 : queue.cost_tokens / queue.jobs;
    queue.jobs += suspects.jobs;
    queue.cost_tokens += suspects.jobs * std::max<std::uint64_t>(each, 1);
  }
  std::vector<ModelQueue> out;
  for (auto& [model, queue] : models) {
    queue.model = model;
    out.push_back(std::move(queue));
  }
  return out;
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
  if (op.at_length) {
    reply.batches = count_batches(records_, op.tenant);
    reply.waiting = waiting_of(op.tenant);
  }
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
