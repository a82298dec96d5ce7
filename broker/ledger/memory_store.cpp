#include "broker/ledger/memory_store.hpp"

#include <algorithm>

#include "broker/ledger/queues.hpp"
#include "broker/ledger/refusals.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {
namespace {

std::size_t index(JobState state) {
  return static_cast<std::size_t>(state);
}

}  // namespace

MemoryStore::MemoryStore(MemoryStoreOptions options) : options_(std::move(options)) {
  if (options_.epoch.empty()) options_.epoch = random_id();
}

Result<Reply> MemoryStore::carry_out(const Operation& operation, std::int64_t now_us) {
  now_us_ = now_us;
  return std::visit([this](const auto& op) { return carry_out(op); }, operation);
}

// ---- records

MemoryStore::JobRecord* MemoryStore::find_job(const std::string& tenant, const std::string& job) {
  const auto it = jobs_.find({tenant, job});
  return it == jobs_.end() ? nullptr : &it->second;
}

MemoryStore::Queue& MemoryStore::queue_of(const JobRecord& job) {
  return queues_[{job.given.tenant, job.suspect, job.given.model, job.given.kv}];
}
void MemoryStore::enqueue(JobRecord& job) {
  queue_of(job).emplace(std::pair{job.given.priority, job.sequence}, &job);
}
void MemoryStore::dequeue(JobRecord& job) {
  queue_of(job).erase({job.given.priority, job.sequence});
}

void MemoryStore::drop_lease(JobRecord& job) {
  leases_.erase(job.lease);
  job.lease = 0;
}

void MemoryStore::set_state(JobRecord& job, JobState state) {
  auto& counts = counts_[job.given.tenant];
  --counts[index(job.state)];
  ++counts[index(state)];
  if (!job.given.batch.empty()) {
    auto& members = batches_[{job.given.tenant, job.given.batch}];
    members[index(job.state)].erase({job.sequence, &job});
    members[index(state)].emplace(job.sequence, &job);
  }
  job.state = state;
}

FinishReply MemoryStore::append(const std::string& tenant, const std::string& stream,
                                const std::string& job, Body body, JobState state) {
  Stream& to = streams_[{tenant, stream}];
  const std::uint64_t number = to.high() + 1;
  to.entries.push_back({number, job, std::move(body)});
  return {number, tenant, stream, job, options_.epoch, state};
}

FinishReply MemoryStore::end(JobRecord& job, const Outcome& outcome) {
  const SubmitJob& given = job.given;
  const EndingJob ending{given.id,     given.custom_id, given.model,  given.batch,
                         given.labels, job.attempts,    job.failures, job.submitted_us};
  Published published = options_.publish(ending, outcome);
  if (job.state == JobState::queued) dequeue(job);
  if (job.state == JobState::leased) drop_lease(job);
  if (given.deadline_us) {
    deadlines_.erase({given.tenant, *given.deadline_us, job.sequence, &job});
  }
  set_state(job, published.state);
  if (published.state != JobState::failed) job.given.body = {};
  FinishReply reply =
      append(given.tenant, given.stream, given.id, std::move(published.body), published.state);
  job.number = reply.number;
  return reply;
}

FinishReply MemoryStore::end_here(JobRecord& job, JobState state, Code reason) {
  return end(job, {state, {}, {}, reason, now_us_});
}

LapsedLease MemoryStore::describe(LeaseId id, const LeaseRecord& lease) const {
  LapsedLease out;
  out.lease = id;
  out.engine = lease.engine;
  out.tenant = lease.job->given.tenant;
  out.job = lease.job->given.id;
  out.alone = lease.alone;
  return out;
}

// ---- jobs

Result<Reply> MemoryStore::carry_out(const SubmitJob& op) {
  if (const JobRecord* known = find_job(op.tenant, op.id)) {
    if (known->given.hash != op.hash || known->given.hash_version != op.hash_version) {
      return refuse_conflict(op.id);
    }
    return SubmitReply{true, known->state};
  }
  auto& counts = counts_[op.tenant];
  if (counts[index(JobState::queued)] >= options_.max_queued_jobs) {
    return refuse_overloaded(counts[index(JobState::queued)]);
  }
  JobRecord& job = jobs_[{op.tenant, op.id}];
  job.given = op;
  job.sequence = next_sequence_++;
  job.submitted_us = now_us_;
  ++counts[index(JobState::queued)];
  if (!op.batch.empty()) {
    batches_[{op.tenant, op.batch}][index(JobState::queued)].emplace(job.sequence, &job);
  }
  if (op.deadline_us) deadlines_.emplace(op.tenant, *op.deadline_us, job.sequence, &job);
  enqueue(job);
  return SubmitReply{false, JobState::queued};
}

// The next jobs of all queues that serve this claim, merged by priority and sequence.
std::vector<MemoryStore::JobRecord*> MemoryStore::next_queued(const Claim& op) {
  std::vector<std::pair<Queue::const_iterator, Queue::const_iterator>> heads;  // next and end
  for (const QueueName& name : queues_of(op)) {
    const auto found = queues_.find({op.tenant, op.suspect, *name.model, *name.kv});
    if (found == queues_.end() || found->second.empty()) continue;
    heads.emplace_back(found->second.begin(), found->second.end());
  }
  const std::size_t wanted = op.suspect ? std::min(op.max_jobs, 1u) : op.max_jobs;
  const auto place = [](const auto& head) { return head.first->first; };
  std::vector<JobRecord*> out;
  for (std::size_t seen = 0; out.size() < wanted && seen < wanted + claim_overscan; ++seen) {
    const auto next = std::ranges::min_element(heads, {}, place);
    if (next == heads.end()) break;
    JobRecord* job = (next->first++)->second;
    if (next->first == next->second) heads.erase(next);
    if (!job->given.deadline_us || *job->given.deadline_us > now_us_) out.push_back(job);
  }
  return out;
}

Result<Reply> MemoryStore::carry_out(const Claim& op) {
  ClaimReply reply;
  std::uint64_t bytes = 0;
  for (JobRecord* job : next_queued(op)) {
    bytes += job->given.body.size();
    if (!reply.jobs.empty() && bytes > op.max_bytes) break;
    dequeue(*job);
    set_state(*job, JobState::leased);
    job->lease = next_lease_++;
    ++job->attempts;
    leases_[job->lease] = {job, op.engine, op.until_us, op.suspect};
    reply.jobs.push_back({job->lease, op.tenant, job->given.id, job->attempts, job->submitted_us,
                          job->given.deadline_us, job->suspect, job->given.body,
                          job->given.custom_id, job->given.stream});
  }
  return reply;
}

Result<Reply> MemoryStore::carry_out(const Renew& op) {
  RenewReply reply;
  for (const LeaseId id : op.leases) {
    const auto it = leases_.find(id);
    if (it == leases_.end() || it->second.engine != op.engine) {
      reply.lost.push_back(id);
      continue;
    }
    it->second.until_us = op.until_us;
    if (it->second.job->cancel_requested) reply.cancelled.push_back(id);
  }
  return reply;
}

Result<Reply> MemoryStore::carry_out(const Finish& op) {
  if (!is_end(op.state)) return refuse_end_state();
  const auto it = leases_.find(op.lease);
  if (it == leases_.end() || (!op.engine.empty() && it->second.engine != op.engine)) {
    return refuse_stale_lease(op.lease);
  }
  return end(*it->second.job, {op.state, op.result, op.error, {}, now_us_});
}

Result<Reply> MemoryStore::carry_out(const GiveBack& op) {
  std::map<std::string, std::size_t> held;  // leases an engine had when it died
  if (op.blame == Blame::died) {
    for (const auto& [id, lease] : leases_) ++held[lease.engine];
  }
  GiveBackReply reply;
  for (const LeaseId id : op.leases) {
    const auto it = leases_.find(id);
    if (it == leases_.end() || (!op.engine.empty() && it->second.engine != op.engine)) continue;
    JobRecord& job = *it->second.job;
    const bool proven = op.blame == Blame::died && it->second.alone && held[it->second.engine] == 1;
    if (op.blame == Blame::died && !job.suspect) {
      job.suspect = true;
      job.suspect_us = now_us_;
    }
    if (proven) ++job.failures;
    if (job.cancel_requested) {
      reply.ended.push_back(end_here(job, JobState::cancelled, Code::cancelled));
    } else if (proven && job.failures >= job.given.max_attempts) {
      reply.ended.push_back(end_here(job, JobState::failed, Code::engine_died));
    } else {
      drop_lease(job);
      set_state(job, JobState::queued);
      enqueue(job);
      reply.returned.push_back(job.given.id);
    }
  }
  return reply;
}

Result<Reply> MemoryStore::carry_out(const FindLapsed& op) {
  FindLapsedReply reply;
  for (const auto& [id, lease] : leases_) {
    const bool of_engine =
        std::find(op.engines.begin(), op.engines.end(), lease.engine) != op.engines.end();
    if (op.all || of_engine || lease.until_us <= op.now_us) {
      reply.leases.push_back(describe(id, lease));
    }
  }
  return reply;
}

Result<Reply> MemoryStore::carry_out(const ExpireJobs& op) {
  ExpireReply reply;
  const auto next = [&]() -> JobRecord* {
    const auto it = deadlines_.lower_bound({op.tenant, INT64_MIN, 0, nullptr});
    const bool due =
        it != deadlines_.end() && std::get<0>(*it) == op.tenant && std::get<1>(*it) <= now_us_;
    return due ? std::get<3>(*it) : nullptr;
  };
  while (JobRecord* job = next()) {
    if (reply.ended.size() >= op.max_jobs) {
      reply.more = true;
      break;
    }
    if (job->state == JobState::leased) {
      reply.leases.push_back(describe(job->lease, leases_[job->lease]));
    }
    reply.ended.push_back(end_here(*job, JobState::expired, Code::expired));
  }
  return reply;
}

void MemoryStore::cancel(JobRecord& job, CancelReply& reply) {
  if (is_end(job.state)) {
    ++reply.ended;
  } else if (job.state == JobState::queued) {
    reply.numbers.push_back(end_here(job, JobState::cancelled, Code::cancelled));
    ++reply.cancelled;
  } else {
    job.cancel_requested = true;
    reply.leases.push_back(describe(job.lease, leases_[job.lease]));
    ++reply.requested;
  }
}

Result<Reply> MemoryStore::carry_out(const CancelJobs& op) {
  CancelReply reply;
  for (const std::string& id : op.jobs) {
    JobRecord* job = find_job(op.tenant, id);
    if (job == nullptr) {
      ++reply.unknown;
    } else {
      cancel(*job, reply);
    }
  }
  if (!op.jobs.empty() || op.batch.empty()) return reply;
  const auto members = batches_.find({op.tenant, op.batch});
  if (members == batches_.end()) return reply;
  std::vector<JobRecord*> chosen;
  for (const JobState state : {JobState::queued, JobState::leased}) {
    for (const auto& [sequence, job] : members->second[index(state)]) {
      if (!job->cancel_requested) chosen.push_back(job);
    }
  }
  if (chosen.size() > op.max_jobs) {
    reply.more = true;
    chosen.resize(op.max_jobs);
  }
  for (JobRecord* job : chosen) cancel(*job, reply);
  return reply;
}

void MemoryStore::retry(JobRecord& job) {
  job.attempts = job.failures = 0;
  job.suspect = job.cancel_requested = false;
  job.number = 0;
  set_state(job, JobState::queued);
  if (job.given.deadline_us) {
    deadlines_.emplace(job.given.tenant, *job.given.deadline_us, job.sequence, &job);
  }
  enqueue(job);
}

Result<Reply> MemoryStore::carry_out(const RetryJobs& op) {
  RetryReply reply;
  for (const std::string& id : op.jobs) {
    JobRecord* job = find_job(op.tenant, id);
    if (job == nullptr) {
      ++reply.unknown;
    } else if (job->state != JobState::failed) {
      ++reply.not_failed;
    } else {
      retry(*job);
      ++reply.retried;
    }
  }
  if (!op.jobs.empty() || op.batch.empty()) return reply;
  const auto members = batches_.find({op.tenant, op.batch});
  if (members == batches_.end()) return reply;
  InOrder& failed = members->second[index(JobState::failed)];
  const auto next = [&] { return failed.lower_bound({op.after + 1, nullptr}); };
  for (auto it = next(); it != failed.end() && reply.retried < op.max_jobs; it = next()) {
    JobRecord& job = *it->second;
    retry(job);
    reply.last = job.sequence;
    ++reply.retried;
  }
  reply.more = next() != failed.end();
  return reply;
}

}  // namespace millrace::broker
