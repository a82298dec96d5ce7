// The operations on jobs and leases.
#include <algorithm>
#include <map>

#include "broker/ledger/queues.hpp"
#include "broker/ledger/refusals.hpp"
#include "broker/ledger/sqlite_operations.hpp"

namespace millrace::broker {
namespace {

LapsedLease describe(const LeaseRow& row) {
  LapsedLease out;
  out.lease = row.lease;
  out.engine = row.engine;
  out.tenant = row.tenant;
  out.job = row.job;
  out.alone = row.alone;
  return out;
}

LeaseRow read_lease(const Statement& s) {
  return {static_cast<LeaseId>(s.integer(0)),
          s.text(1),
          s.text(2),
          s.text(3),
          s.integer(4),
          s.integer(5) != 0};
}

}  // namespace

std::optional<Result<Reply>> SqliteOperations::answer_known(const SubmitJob& op) {
  const auto known = records_.find_job(op.tenant, op.id);
  if (!known) return std::nullopt;
  if (known->hash != op.hash || known->hash_version != op.hash_version) {
    return refuse_conflict(op.id);
  }
  return SubmitReply{true, known->state};
}

FinishReply SqliteOperations::end_here(JobRow& row, JobState state, Code reason) {
  return records_.end(row, {state, {}, {}, reason, now_us_});
}

Result<Reply> SqliteOperations::carry_out(const SubmitJob& op) {
  if (auto known = answer_known(op)) return *std::move(known);
  const std::uint64_t queued = records_.queued_of(op.tenant);
  if (queued >= max_queued_jobs_) return refuse_overloaded(queued);
  records_.insert(op, now_us_);
  return SubmitReply{false, JobState::queued};
}

Statement& SqliteOperations::queue_reader(std::size_t place) {
  while (select_queue_.size() <= place) {
    select_queue_.push_back(std::make_unique<Statement>(
        database_,
        "SELECT priority, sequence, job, deadline_us FROM queue WHERE tenant = ?1 AND "
        "suspect = ?2 AND model = ?3 AND kv = ?4 ORDER BY priority, sequence"));
  }
  return *select_queue_[place];
}

// The next jobs of all queues that serve this claim, merged by priority and sequence. The index
// returns each queue in order, so that only the jobs to hand out are read, and expired ones before
// them.
std::vector<std::string> SqliteOperations::next_queued(const Claim& op) {
  const std::size_t wanted = op.suspect ? std::min(op.max_jobs, 1u) : op.max_jobs;
  std::vector<std::string> out;
  if (wanted == 0) return out;
  std::vector<Statement*> heads;  // each at its queue's next job
  std::size_t readers = 0;
  for (const QueueName& queue : queues_of(op)) {
    Statement& reader = queue_reader(readers++);
    if (reader.run(op.tenant, op.suspect, *queue.model, *queue.kv)) heads.push_back(&reader);
  }
  const auto place = [](const Statement* s) { return std::pair(s->integer(0), s->integer(1)); };
  for (std::size_t seen = 0; out.size() < wanted && seen < wanted + claim_overscan; ++seen) {
    const auto next = std::ranges::min_element(heads, {}, place);
    if (next == heads.end()) break;
    Statement& from = **next;
    if (from.null(3) || from.integer(3) > now_us_) out.push_back(from.text(2));
    if (!from.next()) heads.erase(next);
  }
  // Half-read statements would see the changes that the claim makes next.
  database_.reset_statements();
  return out;
}

Result<Reply> SqliteOperations::carry_out(const Claim& op) {
  ClaimReply reply;
  std::uint64_t bytes = 0;
  for (const std::string& id : next_queued(op)) {
    auto row = records_.known_job(op.tenant, id);
    if (!row) break;
    auto body = records_.body_of(*row);
    if (database_.failed()) break;
    if (!body) {
      reply.ended.push_back(end_here(*row, JobState::failed, Code::ledger_corrupt));
      continue;
    }
    bytes += body->size();
    if (!reply.jobs.empty() && bytes > op.max_bytes) break;
    const LeaseId lease = records_.hand_out(*row, op.engine, op.until_us, op.suspect);
    reply.jobs.push_back({lease, op.tenant, id, row->attempts, row->submitted_us, row->deadline_us,
                          row->suspect_us.has_value(), *std::move(body), row->custom_id,
                          row->stream});
  }
  return reply;
}

Result<Reply> SqliteOperations::carry_out(const Renew& op) {
  RenewReply reply;
  for (const LeaseId id : op.leases) {
    const auto lease = records_.find_lease(id);
    if (!lease || lease->engine != op.engine) {
      reply.lost.push_back(id);
      continue;
    }
    if (lease->until_us != op.until_us) renew_lease_.run(id, op.until_us);
    const auto row = records_.known_job(lease->tenant, lease->job);
    if (row && row->cancel_requested) reply.cancelled.push_back(id);
  }
  return reply;
}

Result<Reply> SqliteOperations::carry_out(const Finish& op) {
  if (!is_end(op.state)) return refuse_end_state();
  const auto lease = records_.find_lease(op.lease);
  if (!lease || (!op.engine.empty() && lease->engine != op.engine)) {
    return refuse_stale_lease(op.lease);
  }
  auto row = records_.known_job(lease->tenant, lease->job);
  if (!row || row->lease != op.lease) return refuse_stale_lease(op.lease);
  return records_.end(*row, {op.state, op.result, op.error, {}, now_us_});
}

void SqliteOperations::give_back(const LeaseRow& lease, const GiveBack& op, bool proven,
                                 GiveBackReply& reply) {
  auto row = records_.known_job(lease.tenant, lease.job);
  if (!row) return;
  if (op.blame == Blame::died && !row->suspect_us) row->suspect_us = now_us_;
  if (proven) ++row->failures;
  if (row->cancel_requested) {
    reply.ended.push_back(end_here(*row, JobState::cancelled, Code::cancelled));
  } else if (proven && row->failures >= row->max_attempts) {
    reply.ended.push_back(end_here(*row, JobState::failed, Code::engine_died));
  } else {
    records_.put_back(*row);
    reply.returned.push_back(row->job);
  }
}

Result<Reply> SqliteOperations::carry_out(const GiveBack& op) {
  std::map<std::string, std::uint64_t> held;  // leases an engine had when it died
  std::vector<LeaseRow> leases;
  for (const LeaseId id : op.leases) {
    auto lease = records_.find_lease(id);
    if (!lease || (!op.engine.empty() && lease->engine != op.engine)) continue;
    const bool twice = std::any_of(leases.begin(), leases.end(),
                                   [id](const LeaseRow& known) { return known.lease == id; });
    if (twice) continue;
    if (!held.contains(lease->engine)) held[lease->engine] = records_.leases_of(lease->engine);
    leases.push_back(*std::move(lease));
  }
  GiveBackReply reply;
  for (const LeaseRow& lease : leases) {
    const bool proven = op.blame == Blame::died && lease.alone && held[lease.engine] == 1;
    give_back(lease, op, proven, reply);
  }
  return reply;
}

Result<Reply> SqliteOperations::carry_out(const FindLapsed& op) {
  std::map<LeaseId, LapsedLease> found;
  const auto collect = [&](Statement& s, bool row) {
    for (; row; row = s.next()) {
      const LeaseRow lease = read_lease(s);
      found.emplace(lease.lease, describe(lease));
    }
  };
  if (op.all) {
    collect(select_leases_, select_leases_.run());
  } else {
    collect(select_leases_until_, select_leases_until_.run(op.now_us));
    for (const std::string& engine : op.engines) {
      collect(select_leases_of_engine_, select_leases_of_engine_.run(engine));
    }
  }
  FindLapsedReply reply;
  for (auto& [id, lease] : found) reply.leases.push_back(std::move(lease));
  return reply;
}

Result<Reply> SqliteOperations::carry_out(const ExpireJobs& op) {
  std::vector<std::string> due;
  Statement& s = select_due_;
  const std::int64_t limit = std::int64_t{op.max_jobs} + 1;
  for (bool row = s.run(op.tenant, now_us_, limit); row; row = s.next()) due.push_back(s.text(0));
  ExpireReply reply;
  reply.more = due.size() > op.max_jobs;
  if (reply.more) due.resize(op.max_jobs);
  for (const std::string& id : due) {
    auto row = records_.find_job(op.tenant, id);
    if (!row) break;
    if (row->lease != 0) {
      if (const auto lease = records_.find_lease(row->lease)) {
        reply.leases.push_back(describe(*lease));
      }
    }
    reply.ended.push_back(end_here(*row, JobState::expired, Code::expired));
  }
  return reply;
}

std::vector<std::string> SqliteOperations::jobs_of_batch(const std::string& tenant,
                                                         const std::string& batch, JobState state,
                                                         std::uint32_t max_jobs,
                                                         std::uint64_t after) {
  std::vector<std::string> out;
  Statement& s = select_batch_;
  const std::int64_t limit = std::int64_t{max_jobs} + 1;
  for (bool row = s.run(tenant, batch, static_cast<int>(state), after, limit); row;
       row = s.next()) {
    out.push_back(s.text(0));
  }
  return out;
}

void SqliteOperations::cancel(JobRow& row, CancelReply& reply) {
  if (is_end(row.state)) {
    ++reply.ended;
  } else if (row.state == JobState::queued) {
    reply.numbers.push_back(end_here(row, JobState::cancelled, Code::cancelled));
    ++reply.cancelled;
  } else {
    if (!row.cancel_requested) records_.mark_cancelled(row);
    if (const auto lease = records_.find_lease(row.lease)) {
      reply.leases.push_back(describe(*lease));
    }
    ++reply.requested;
  }
}

Result<Reply> SqliteOperations::carry_out(const CancelJobs& op) {
  CancelReply reply;
  std::vector<std::string> chosen = op.jobs;
  if (op.jobs.empty() && !op.batch.empty()) {
    chosen = jobs_of_batch(op.tenant, op.batch, JobState::queued, op.max_jobs, 0);
    for (auto& id : jobs_of_batch(op.tenant, op.batch, JobState::leased, op.max_jobs, 0)) {
      chosen.push_back(std::move(id));
    }
    reply.more = chosen.size() > op.max_jobs;
    if (reply.more) chosen.resize(op.max_jobs);
  }
  for (const std::string& id : chosen) {
    if (auto row = records_.find_job(op.tenant, id)) {
      cancel(*row, reply);
    } else {
      ++reply.unknown;
    }
  }
  return reply;
}

void SqliteOperations::retry(JobRow& row) {
  row.attempts = row.failures = 0;
  row.suspect_us.reset();
  row.cancel_requested = false;
  row.number = 0;
  records_.put_back(row);
}

Result<Reply> SqliteOperations::carry_out(const RetryJobs& op) {
  RetryReply reply;
  std::vector<std::string> chosen = op.jobs;
  if (op.jobs.empty() && !op.batch.empty()) {
    chosen = jobs_of_batch(op.tenant, op.batch, JobState::failed, op.max_jobs, op.after);
    reply.more = chosen.size() > op.max_jobs;
    if (reply.more) chosen.resize(op.max_jobs);
  }
  for (const std::string& id : chosen) {
    auto row = records_.find_job(op.tenant, id);
    if (!row) {
      ++reply.unknown;
    } else if (row->state != JobState::failed) {
      ++reply.not_failed;
    } else {
      retry(*row);
      ++reply.retried;
      if (op.jobs.empty()) reply.last = row->sequence;
    }
  }
  return reply;
}

}  // namespace millrace::broker
