#include "broker/ledger/transitions.hpp"

#include <utility>

#include "broker/ledger/queues.hpp"

namespace millrace::broker {

void Transitions::begin(std::int64_t now_us) {
  now_us_ = now_us;
  counts_.clear();
  changes_.clear();
  books_.clear();
  ready_.clear();
  pauses_.clear();
}

void Transitions::flush() {
  for (const auto& [key, changes] : changes_) {
    for (std::size_t state = 0; state < changes.size(); ++state) {
      if (changes[state] == 0) continue;
      records_.add_count(key.first, key.second, static_cast<JobState>(state), changes[state]);
    }
  }
  changes_.clear();
  for (auto& [key, ready] : ready_) {
    for (const auto& [queue, jobs] : std::exchange(ready.changes, {})) {
      if (jobs == 0) continue;
      records_.add_ready(key.first, key.second, queue.first, queue.second, jobs);
    }
  }
}

std::uint64_t Transitions::count_of(const std::string& tenant, JobState state) {
  auto it = counts_.find(tenant);
  if (it == counts_.end()) {
    StateCounts counts = records_.counts(tenant, "");
    if (const auto own = changes_.find({tenant, ""}); own != changes_.end()) {
      for (std::size_t i = 0; i < counts.size(); ++i) counts[i] += own->second[i];
    }
    it = counts_.emplace(tenant, counts).first;
  }
  return static_cast<std::uint64_t>(it->second[static_cast<std::size_t>(state)]);
}

void Transitions::count(const JobRecord& job, std::int64_t change) {
  const auto state = static_cast<std::size_t>(job.state);
  changes_[{job.tenant, ""}][state] += change;
  if (!job.batch.empty()) {
    changes_[{job.tenant, job.batch}][state] += change;
    const auto book = books_.find({job.tenant, job.batch});
    if (book != books_.end() && !is_end(job.state)) book->second.open += change;
  }
  if (const auto it = counts_.find(job.tenant); it != counts_.end()) it->second[state] += change;
}

// ---- ready jobs

Transitions::Ready& Transitions::ready_in(const std::string& tenant, const std::string& batch) {
  const auto [it, fresh] = ready_.try_emplace({tenant, batch});
  if (fresh) {
    for (const ReadyJobs& one : records_.ready(tenant, batch)) {
      it->second.jobs[{one.model, one.kv}] = one.jobs;
    }
  }
  return it->second;
}

void Transitions::add_ready(const std::string& tenant, const std::string& batch, const Queues& jobs,
                            int times) {
  Ready& ready = ready_in(tenant, batch);
  for (const auto& [queue, number] : jobs) {
    ready.jobs[queue] += times * number;
    ready.changes[queue] += times * number;
  }
}

void Transitions::count_ready(const JobRecord& job, int change) {
  if (job.suspicion) return;
  const Queues one{{{job.model, job.kv}, 1}};
  if (!job.batch.empty()) add_ready(job.tenant, job.batch, one, change);
  if (!is_paused(job.tenant, job.batch)) add_ready(job.tenant, "", one, change);
}

std::uint64_t Transitions::ready_of(const std::string& tenant) {
  const auto& pauses = pauses_of(tenant);
  if (pauses.contains("")) return 0;
  std::int64_t jobs = 0;
  for (const auto& [queue, number] : ready_in(tenant, "").jobs) {
    if (!pauses.contains(queue.first)) jobs += number;
  }
  return static_cast<std::uint64_t>(jobs);
}

std::uint64_t Transitions::ready_for(const Claim& claim, const std::string& batch) {
  const Queues& ready = ready_in(claim.tenant, batch).jobs;
  std::int64_t jobs = 0;
  for (const QueueName& queue : queues_of(claim)) {
    if (const auto it = ready.find({*queue.model, *queue.kv}); it != ready.end())
      jobs += it->second;
  }
  return static_cast<std::uint64_t>(jobs);
}

// ---- changes

void Transitions::move_to(JobRecord& job, JobState state) {
  count(job, -1);
  job.state = state;
  count(job, 1);
}

void Transitions::enqueue_if_started(const JobRecord& job) {
  if (job.start_us) return;
  records_.enqueue(job);
  count_ready(job, 1);
}

void Transitions::dequeue_if_started(const JobRecord& job) {
  if (job.start_us) return;
  records_.dequeue(job);
  count_ready(job, -1);
}

void Transitions::stored(const JobRecord& job) {
  if (!job.batch.empty() && !book_of(job.tenant, job.batch).record) {
    const auto stream = records_.find_stream(job.tenant, job.stream);
    BatchRecord record{job.batch, now_us_};
    record.stream = job.stream;
    record.first = stream ? stream->high + 1 : 1;
    update_batch(job.tenant, record);
  }
  enqueue_if_started(job);
  count(job, 1);
}

LeaseId Transitions::hand_out(JobRecord& job, const Claim& claim, bool alone) {
  dequeue_if_started(job);
  move_to(job, JobState::leased);
  ++job.attempts;
  LeaseRecord lease{0, job.tenant, job.job, claim.engine, claim.until_us, alone};
  records_.insert_lease(lease);
  job.lease = lease.lease;
  records_.update_job(job);
  return lease.lease;
}

void Transitions::put_back(JobRecord& job) {
  if (job.lease != 0) records_.delete_lease(job.lease);
  move_to(job, JobState::queued);
  job.lease = 0;
  job.ended_us.reset();
  records_.update_job(job);
  enqueue_if_started(job);
}

void Transitions::start(JobRecord& job) {
  job.start_us.reset();
  records_.update_job(job);
  enqueue_if_started(job);
}

void Transitions::set_aside(JobRecord& job) {
  dequeue_if_started(job);
  job.start_us = until_resumed;
  records_.update_job(job);
}

FinishReply Transitions::run_later(JobRecord& job, const Error& error, std::int64_t start_us) {
  job.error = error;
  job.start_us = start_us;
  put_back(job);
  FinishReply reply{0, job.tenant, job.stream, job.job, records_.epoch(), job.state};
  reply.reason = error.code;
  return reply;
}

void Transitions::clear_suspicion(JobRecord& job) {
  const bool queued = job.state == JobState::queued;
  if (queued) dequeue_if_started(job);
  job.suspicion.reset();
  records_.update_job(job);
  if (queued) enqueue_if_started(job);
}

void Transitions::request_cancel(JobRecord& job) {
  job.cancel_requested = true;
  records_.update_job(job);
}

void Transitions::forget(const JobRecord& job) {
  count(job, -1);
  records_.delete_job(job);
}

FinishReply Transitions::end(JobRecord& job, const Outcome& outcome) {
  const EndingJob ending{job.job,    job.custom_id, job.model,    job.batch,
                         job.labels, job.attempts,  job.failures, job.submitted_us};
  const Published published = publish_(ending, outcome);
  if (job.state == JobState::queued) dequeue_if_started(job);
  if (job.lease != 0) records_.delete_lease(job.lease);
  move_to(job, published.state);
  job.lease = 0;
  job.suspicion.reset();
  job.start_us.reset();
  job.error = job.state == JobState::failed ? published.error : std::nullopt;
  FinishReply reply = append(job.tenant, job.stream, job.job, published.body, job.state);
  job.number = reply.number;
  job.ended_us = now_us_;
  records_.update_job(job);
  reply.batch = job.batch;
  if (job.error) reply.reason = job.error->code;
  reply.submitted_us = job.submitted_us;
  reply.attempts = job.attempts;
  reply.labels = job.labels;
  if (!job.batch.empty()) reply.batch_number = finish_batch(job.tenant, job.batch);
  // Only a failed job can run again.
  if (job.state != JobState::failed) records_.delete_body(job);
  return reply;
}

FinishReply Transitions::end_here(JobRecord& job, JobState state, Code reason) {
  return end(job, {state, {}, {}, reason, now_us_});
}

FinishReply Transitions::append(const std::string& tenant, const std::string& stream,
                                const std::string& job, const Body& body, JobState state) {
  const std::uint64_t number = records_.next_number(tenant, stream, body.size());
  records_.insert_entry(tenant, stream, number, job, body, now_us_);
  return {number, tenant, stream, job, records_.epoch(), state};
}

}  // namespace millrace::broker
