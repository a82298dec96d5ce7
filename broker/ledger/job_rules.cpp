// The rules of listing jobs, of starting those that waited, and of forgetting them.
#include <algorithm>
#include <charconv>
#include <set>
#include <utility>

#include "broker/ledger/ledger_rules.hpp"
#include "broker/ledger/refusals.hpp"

namespace millrace::broker {
namespace {

constexpr JobState all_states[] = {JobState::queued, JobState::leased,    JobState::completed,
                                   JobState::failed, JobState::cancelled, JobState::expired};

std::optional<std::uint64_t> sequence_of(const std::string& after) {
  if (after.empty()) return 0;
  std::uint64_t out = 0;
  const auto [end, error] = std::from_chars(after.data(), after.data() + after.size(), out);
  if (error != std::errc() || end != after.data() + after.size()) return std::nullopt;
  return out;
}

bool fits(const JobRecord& job, const JobsRequest& wanted) {
  return (wanted.stream.empty() || job.stream == wanted.stream) &&
         (!wanted.state || job.state == *wanted.state);
}

// Whether most of the jobs that are looked through may not be wanted.
bool is_sparse(const JobsRequest& wanted) {
  if (!wanted.stream.empty()) return true;
  return wanted.batch.empty() && wanted.state && *wanted.state != JobState::failed &&
         *wanted.state != JobState::leased;
}

std::uint64_t bytes_of(const JobInfo& job) {
  std::uint64_t bytes = sizeof job;
  for (const std::string* text :
       {&job.job, &job.custom_id, &job.model, &job.stream, &job.batch, &job.engine}) {
    bytes += text->size();
  }
  if (job.error) bytes += job.error->message.size() + job.error->hint.size();
  return bytes;
}

}  // namespace

JobInfo LedgerRules::info_of(const JobRecord& job) {
  JobInfo out;
  out.job = job.job;
  out.custom_id = job.custom_id;
  out.model = job.model;
  out.stream = job.stream;
  out.batch = job.batch;
  out.state = job.state;
  out.priority = job.priority;
  out.attempts = job.attempts;
  out.failures = job.failures;
  out.max_attempts = job.max_attempts;
  out.suspect = job.suspicion.has_value();
  out.submitted_us = job.submitted_us;
  if (job.start_us != until_resumed) out.not_before_us = job.start_us;
  out.paused = transitions_.paused_by(job) != PausedBy::nothing;
  out.deadline_us = job.deadline_us;
  out.ended_us = job.ended_us;
  out.number = job.number;
  out.error = job.error;
  if (job.lease != 0) {
    if (auto lease = records_.find_lease(job.lease)) out.engine = std::move(lease->engine);
  }
  return out;
}

// Jobs of a batch that were submitted after this place.
std::vector<JobRecord> LedgerRules::batch_page(const ListJobs& op, std::uint64_t after,
                                               std::uint64_t most) {
  std::vector<BatchJob> found;
  for (const JobState state : all_states) {
    if (op.wanted.state && state != *op.wanted.state) continue;
    std::ranges::move(records_.jobs_of_batch({op.tenant, op.wanted.batch, state, after, most}),
                      std::back_inserter(found));
  }
  std::ranges::sort(found, {}, &BatchJob::sequence);
  if (found.size() > most) found.resize(most);
  std::vector<std::string> ids;
  for (const BatchJob& one : found) ids.push_back(one.job);
  records_.expect_jobs(op.tenant, ids);
  std::vector<JobRecord> out;
  for (const BatchJob& one : found) {
    auto job = records_.find_job(op.tenant, one.job);
    if (!job) break;
    out.push_back(*std::move(job));
  }
  return out;
}

// Leased jobs are few and have records of their own.
std::vector<JobRecord> LedgerRules::leased_page(const ListJobs& op, std::uint64_t most) {
  std::set<std::string> ids;
  for (LeaseRecord& lease : records_.all_leases()) {
    if (lease.tenant == op.tenant && lease.job > op.wanted.after) ids.insert(std::move(lease.job));
  }
  records_.expect_jobs(op.tenant, std::vector(ids.begin(), ids.end()));
  std::vector<JobRecord> out;
  for (const std::string& id : ids) {
    auto job = records_.find_job(op.tenant, id);
    if (!job || out.size() == most) break;
    out.push_back(*std::move(job));
  }
  return out;
}

Result<Reply> LedgerRules::carry_out(const ListJobs& op) {
  const JobsRequest& wanted = op.wanted;
  ListJobsReply reply;
  auto& [jobs, more, next] = reply.answer;
  if (!wanted.job.empty()) {
    const auto job = records_.find_job(op.tenant, wanted.job);
    if (!job) return refuse_unknown_job(wanted.job);
    jobs.push_back(info_of(*job));
    return reply;
  }
  const bool by_batch = !wanted.batch.empty();
  const auto after = by_batch ? sequence_of(wanted.after) : std::optional<std::uint64_t>(0);
  if (!after) return refuse_list_place(wanted.after);
  const std::uint64_t most = std::max(is_sparse(wanted) ? op.max_scanned : op.max_jobs, 1u);
  const std::vector<JobRecord> page =
      by_batch ? batch_page(op, *after, most)
      : wanted.state == JobState::leased
          ? leased_page(op, most)
          : records_.list_jobs(op.tenant, wanted.state == JobState::failed, wanted.after, most);
  more = page.size() == most;
  std::uint64_t bytes = 0;
  for (const JobRecord& job : page) {
    if (fits(job, wanted)) {
      JobInfo info = info_of(job);
      bytes += bytes_of(info);
      const bool full = jobs.size() == op.max_jobs || bytes > op.max_bytes;
      more = more || (full && !jobs.empty());
      if (full && !jobs.empty()) break;
      jobs.push_back(std::move(info));
    }
    next = by_batch ? std::to_string(job.sequence) : job.job;
  }
  if (!more) next.clear();
  return reply;
}

// Forgets jobs that have ended, and batches that have none left.
void LedgerRules::forget(const std::vector<JobRecord>& jobs) {
  std::set<std::pair<std::string, std::string>> batches;
  for (const JobRecord& job : jobs) {
    transitions_.forget(job);
    if (!job.batch.empty()) batches.emplace(job.tenant, job.batch);
  }
  if (batches.empty()) return;
  transitions_.flush();
  for (const auto& [tenant, batch] : batches) {
    if (records_.counts(tenant, batch) == StateCounts{}) transitions_.forget_batch(tenant, batch);
  }
}

Result<Reply> LedgerRules::carry_out(const DropJobs& op) {
  DropReply reply;
  std::vector<std::string> chosen = op.jobs;
  if (op.jobs.empty() && !op.batch.empty()) {
    const std::uint64_t limit = std::uint64_t{op.max_jobs} + 1;
    for (auto& job : records_.jobs_of_batch({op.tenant, op.batch, JobState::failed, 0, limit})) {
      chosen.push_back(std::move(job.job));
    }
    reply.more = chosen.size() > op.max_jobs;
    if (reply.more) chosen.resize(op.max_jobs);
  }
  records_.expect_jobs(op.tenant, chosen);
  for (const std::string& id : chosen) {
    const auto job = records_.find_job(op.tenant, id);
    if (!job) {
      ++reply.unknown;
    } else if (job->state != JobState::failed) {
      ++reply.not_failed;
    } else {
      forget({*job});
      ++reply.dropped;
    }
  }
  return reply;
}

void LedgerRules::start(JobRecord& job, StartReply& reply) {
  transitions_.start(job);
  ++reply.started;
  reply.suspects += job.suspicion.has_value();
}

Result<Reply> LedgerRules::carry_out(const StartJobs& op) {
  const std::uint64_t limit = std::uint64_t{op.max_jobs} + 1;
  auto ids = records_.starting_jobs(op.tenant, transitions_.now_us(), limit);
  StartReply reply;
  reply.more = ids.size() > op.max_jobs;
  if (reply.more) ids.resize(op.max_jobs);
  records_.expect_jobs(op.tenant, ids);
  for (const std::string& id : ids) {
    auto job = records_.find_job(op.tenant, id);
    if (!job) break;
    start(*job, reply);
  }
  reply.more = bring_back_resumed(op.tenant, op.max_jobs, reply) || reply.more;
  return reply;
}

}  // namespace millrace::broker
