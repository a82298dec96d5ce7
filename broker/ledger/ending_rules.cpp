// The rules of leases that lapse, of brokers beside this one, deadlines, cancels and retries.
#include <map>

#include "broker/ledger/ledger_rules.hpp"

namespace millrace::broker {
namespace {

LapsedLease describe(LeaseRecord lease) {
  LapsedLease out;
  out.lease = lease.lease;
  out.engine = std::move(lease.engine);
  out.tenant = std::move(lease.tenant);
  out.job = std::move(lease.job);
  out.alone = lease.alone;
  return out;
}

}  // namespace

Result<Reply> LedgerRules::carry_out(const FindLapsed& op) {
  std::map<LeaseId, LapsedLease> found;
  const auto collect = [&](std::vector<LeaseRecord> leases) {
    for (LeaseRecord& lease : leases) {
      const LeaseId id = lease.lease;
      found.emplace(id, describe(std::move(lease)));
    }
  };
  if (op.all) {
    collect(records_.all_leases());
  } else {
    collect(records_.leases_until(op.now_us));
    for (const std::string& engine : op.engines) collect(records_.leases_of(engine));
  }
  std::vector<LeaseId> leases;
  for (const auto& [id, lease] : found) leases.push_back(id);
  for (const LeaseId id : records_.held_elsewhere(leases)) found.erase(id);
  FindLapsedReply reply;
  for (auto& [id, lease] : found) reply.leases.push_back(std::move(lease));
  return reply;
}

Result<Reply> LedgerRules::carry_out(const BeatBroker& op) {
  return BeatReply{records_.beat(op.alive_us)};
}

Result<Reply> LedgerRules::carry_out(const ReadNews& op) {
  NewsReply reply;
  reply.marks = op.since;
  reply.news = records_.read_news(reply.marks);
  reply.epoch = records_.epoch();
  return reply;
}

Result<Reply> LedgerRules::carry_out(const ExpireJobs& op) {
  auto due = records_.due_jobs(op.tenant, transitions_.now_us(), std::uint64_t{op.max_jobs} + 1);
  ExpireReply reply;
  reply.more = due.size() > op.max_jobs;
  if (reply.more) due.resize(op.max_jobs);
  records_.expect_jobs(op.tenant, due);
  for (const std::string& id : due) {
    auto job = records_.find_job(op.tenant, id);
    if (!job) break;
    if (job->lease != 0) {
      if (auto lease = records_.find_lease(job->lease)) {
        reply.leases.push_back(describe(*std::move(lease)));
      }
    }
    reply.ended.push_back(transitions_.end_here(*job, JobState::expired, Code::expired));
  }
  return reply;
}

void LedgerRules::cancel(JobRecord& job, CancelReply& reply) {
  if (is_end(job.state)) {
    ++reply.ended;
  } else if (job.state == JobState::queued) {
    reply.numbers.push_back(transitions_.end_here(job, JobState::cancelled, Code::cancelled));
    ++reply.cancelled;
  } else {
    if (!job.cancel_requested) transitions_.request_cancel(job);
    if (auto lease = records_.find_lease(job.lease)) {
      reply.leases.push_back(describe(*std::move(lease)));
    }
    ++reply.requested;
  }
}

Result<Reply> LedgerRules::carry_out(const CancelJobs& op) {
  CancelReply reply;
  std::vector<std::string> chosen = op.jobs;
  if (op.jobs.empty() && !op.batch.empty()) {
    const std::uint64_t limit = std::uint64_t{op.max_jobs} + 1;
    for (const JobState state : {JobState::queued, JobState::leased}) {
      for (auto& job : records_.jobs_of_batch({op.tenant, op.batch, state, 0, limit, true})) {
        chosen.push_back(std::move(job.job));
      }
    }
    reply.more = chosen.size() > op.max_jobs;
    if (reply.more) chosen.resize(op.max_jobs);
  }
  records_.expect_jobs(op.tenant, chosen);
  for (const std::string& id : chosen) {
    if (auto job = records_.find_job(op.tenant, id)) {
      cancel(*job, reply);
    } else {
      ++reply.unknown;
    }
  }
  return reply;
}

void LedgerRules::retry(JobRecord& job) {
  job.attempts = job.failures = 0;
  job.suspicion.reset();
  job.cancel_requested = false;
  job.number = 0;
  job.error.reset();
  transitions_.reopen(job);
  transitions_.put_back(job);
}

Result<Reply> LedgerRules::carry_out(const RetryJobs& op) {
  RetryReply reply;
  std::vector<std::string> chosen = op.jobs;
  if (op.jobs.empty() && !op.batch.empty()) {
    const std::uint64_t limit = std::uint64_t{op.max_jobs} + 1;
    for (auto& job :
         records_.jobs_of_batch({op.tenant, op.batch, JobState::failed, op.after, limit})) {
      chosen.push_back(std::move(job.job));
    }
    reply.more = chosen.size() > op.max_jobs;
    if (reply.more) chosen.resize(op.max_jobs);
  }
  records_.expect_jobs(op.tenant, chosen);
  for (const std::string& id : chosen) {
    auto job = records_.find_job(op.tenant, id);
    if (!job) {
      ++reply.unknown;
    } else if (job->state != JobState::failed) {
      ++reply.not_failed;
    } else {
      retry(*job);
      ++reply.retried;
      if (op.jobs.empty()) reply.last = job->sequence;
    }
  }
  return reply;
}

}  // namespace millrace::broker
