// The operations that store jobs, hand them out and take their ends. Suspects are in
// suspect_rules.cpp, cancels, deadlines and retries in ending_rules.cpp, streams and reads in
// stream_rules.cpp, what is no longer kept in retention_rules.cpp.
#include "broker/ledger/ledger_rules.hpp"

#include <algorithm>
#include <set>
#include <type_traits>

#include "broker/ledger/refusals.hpp"

namespace millrace::broker {
namespace {

template <class... Ops>
bool is_any(const Operation& op) {
  return (std::holds_alternative<Ops>(op) || ...);
}

// The number of operations at the beginning that make one set.
std::size_t set_length(std::span<const Operation> operations) {
  const Operation& first = operations.front();
  if (!is_any<SubmitJob, Finish>(first)) return 1;
  const auto end = std::ranges::find_if(
      operations, [&](const Operation& op) { return op.index() != first.index(); });
  return static_cast<std::size_t>(end - operations.begin());
}

JobRecord record_of(const SubmitJob& op, std::int64_t now_us) {
  JobRecord job;
  job.tenant = op.tenant;
  job.job = op.id;
  job.hash = op.hash;
  job.hash_version = op.hash_version;
  job.custom_id = op.custom_id;
  job.model = op.model;
  job.stream = op.stream;
  job.batch = op.batch;
  job.kv = op.kv;
  job.cost_tokens = op.cost_tokens;
  job.prefix = op.prefix;
  job.labels = op.labels;
  job.priority = op.priority;
  job.max_attempts = op.max_attempts;
  job.deadline_us = op.deadline_us;
  job.submitted_us = now_us;
  if (op.not_before_us && *op.not_before_us > now_us) {
    job.start_us = std::min(*op.not_before_us, until_resumed - 1);
  }
  return job;
}

// The hash by which a job is compared with one of this version; empty: they cannot be compared.
std::string hash_of(const SubmitJob& op, int version) {
  if (version == op.hash_version) return op.hash;
  if (version == 1) return op.body_hash;
  if (version == 2) return op.timed_hash.empty() ? op.hash : op.timed_hash;
  return version == 3 ? (op.traced_hash.empty() ? op.hash : op.traced_hash) : "";
}

// Whether this end is none: the job runs again, later.
bool may_run_again(const JobRecord& job, const Finish& op) {
  return op.state == JobState::failed && op.error && millrace::may_run_again(op.error->code) &&
         !job.cancel_requested;
}

}  // namespace

bool only_reads(const Operation& op) {
  return is_any<ListBatches, ListJobs, FindLapsed, ReadStream, ListStreams, GetStream, ListCursors,
                GetJob, Count, ListTenants, BackUp, ReadNews>(op);
}
bool brings_work(const Operation& op) {
  return is_any<SubmitJob, Append>(op);
}
std::uint64_t work_bytes(const Operation& op) {
  if (const auto* submit = std::get_if<SubmitJob>(&op)) return submit->body.size();
  if (const auto* append = std::get_if<Append>(&op)) return append->body.size();
  return 0;
}

LedgerRules::LedgerRules(Records& records, RulesOptions options)
    : records_(records), options_(std::move(options)), transitions_(records, options_.publish) {}

std::vector<Result<Reply>> LedgerRules::carry_out(std::span<const Operation> operations,
                                                  std::int64_t now_us, const Refusals& refusals) {
  transitions_.begin(now_us);
  Replies replies;
  replies.reserve(operations.size());
  while (!operations.empty() && records_.status()) {
    const Operation& op = operations.front();
    std::size_t length = 1;
    if (refusals.writes && !only_reads(op)) {
      replies.push_back(refuse(op, *refusals.writes));
    } else if (refusals.work && brings_work(op)) {
      replies.push_back(refuse(op, *refusals.work));
    } else if (is_any<SubmitJob>(op)) {
      length = set_length(operations);
      submit(operations.first(length), replies);
    } else if (is_any<Finish>(op)) {
      length = set_length(operations);
      finish(operations.first(length), replies);
    } else {
      replies.push_back(std::visit(
          [this](const auto& one) -> Result<Reply> {
            using Op = std::decay_t<decltype(one)>;
            if constexpr (std::is_same_v<Op, SubmitJob> || std::is_same_v<Op, Finish>) {
              return fail(Code::internal, "an operation on a set was carried out alone");
            } else {
              return this->carry_out(one);
            }
          },
          op));
    }
    operations = operations.subspan(length);
  }
  transitions_.flush();
  return replies;
}

// A job that is stored already gets its answer even on a full disk.
Result<Reply> LedgerRules::refuse(const Operation& op, const Error& error) {
  if (const auto* submit = std::get_if<SubmitJob>(&op)) {
    if (auto known = answer_known(*submit)) return *std::move(known);
  }
  return fail(error);
}

// The answer to a submit whose id is stored already. None where the job is new.
std::optional<Result<Reply>> LedgerRules::answer_known(const SubmitJob& op) {
  const auto known = records_.find_job(op.tenant, op.id);
  if (!known) return std::nullopt;
  if (known->hash != hash_of(op, known->hash_version)) return refuse_conflict(op.id);
  return SubmitReply{true, known->state};
}

void LedgerRules::submit(std::span<const Operation> submits, Replies& replies) {
  while (!submits.empty() && records_.status()) {
    // The next jobs of one tenant, as many as its queue has room for if all of them are new.
    const auto& first = std::get<SubmitJob>(submits.front());
    if (transitions_.is_closed(first.tenant, first.batch)) {
      auto known = answer_known(first);
      replies.push_back(known ? *std::move(known) : refuse_closed_batch(first.batch, first.id));
      submits = submits.subspan(1);
      continue;
    }
    const std::uint64_t queued = transitions_.count_of(first.tenant, JobState::queued);
    if (queued >= first.max_queued) {
      auto known = answer_known(first);
      replies.push_back(known ? *std::move(known) : refuse_overloaded(queued));
      submits = submits.subspan(1);
      continue;
    }
    std::vector<NewJob> jobs;
    for (const Operation& operation : submits) {
      const auto& op = std::get<SubmitJob>(operation);
      const bool alike = op.tenant == first.tenant && op.max_queued == first.max_queued;
      if (!alike || jobs.size() >= first.max_queued - queued) break;
      if (op.batch != first.batch && transitions_.is_closed(op.tenant, op.batch)) break;
      jobs.push_back({record_of(op, transitions_.now_us()), &op.body});
    }
    records_.store_new(jobs);
    for (std::size_t i = 0; i < jobs.size(); ++i) {
      const auto& op = std::get<SubmitJob>(submits[i]);
      if (jobs[i].stored) {
        transitions_.stored(jobs[i].record);
        replies.push_back(SubmitReply{false, JobState::queued, is_ready(jobs[i].record)});
      } else {
        auto known = answer_known(op);
        replies.push_back(known ? *std::move(known) : refuse_unknown_job(op.id));
      }
    }
    submits = submits.subspan(jobs.size());
  }
}

bool LedgerRules::is_ready(const JobRecord& job) {
  return job.state == JobState::queued && !job.start_us && !job.suspicion &&
         transitions_.paused_by(job) == PausedBy::nothing;
}

// Hands out one job, or fails it where its body is damaged. False: the claim has no room for it.
bool LedgerRules::hand_out(ClaimableJob next, const Claim& op, ClaimRoom& room, ClaimReply& reply) {
  JobRecord& job = next.job;
  if (is_end(job.state)) {  // it would never leave the queue
    records_.note_corruption("job '" + job.job + "' is queued but has ended");
    return false;
  }
  if (!next.body) {
    reply.ended.push_back(transitions_.end_here(job, JobState::failed, Code::ledger_corrupt));
    return true;
  }
  if (!room.take(next.body->size(), job.cost_tokens)) return false;
  const bool alone = job.suspicion && runs_alone(job.among());
  const LeaseId lease = transitions_.hand_out(job, op, alone);
  reply.jobs.push_back({lease, op.tenant, job.job, job.attempts, job.submitted_us, job.deadline_us,
                        job.suspicion.has_value(), alone, *std::move(next.body), job.custom_id,
                        job.stream, job.cost_tokens, job.prefix});
  return !room.used_up();
}

// Returns whether these are all jobs that the claim may have.
bool LedgerRules::claim_jobs(const Claim& op, ClaimRoom& room, Tails& tails, ClaimReply& reply) {
  constexpr std::uint32_t page_jobs = 64;  // where the jobs of a paused batch come first
  const std::size_t most = reply.jobs.size() + op.max_jobs;
  Claim page = op;
  bool exchanged = false;  // so what is left is not what was read
  for (std::size_t aside = 0; aside < claim_set_aside;) {
    const std::size_t aside_before = aside;
    auto found = records_.claimable(page, 0, transitions_.now_us());
    for (ClaimableJob& next : found) {
      if (set_aside_if_paused(next.job)) {
        ++aside;
        continue;
      }
      if (reply.jobs.size() == most) return false;
      if (auto other = tails.instead_of(next.job, op)) {
        exchanged = true;
        next.body = records_.find_body(*other);
        next.job = *std::move(other);
      }
      page.prefixes.take(next.job.prefix);
      if (!hand_out(std::move(next), op, room, reply)) return false;
    }
    if (aside == aside_before) return found.size() < page.max_jobs && !exchanged;
    page.max_jobs = std::max(page_jobs, op.max_jobs);
    page.max_tokens = any_tokens;  // jobs that are set aside cost none; hand_out keeps the limit
  }
  reply.more = true;
  return false;
}

// Hands out jobs of one tenant, at most as many as it may hold.
LedgerRules::Claimed LedgerRules::claim(const Claim& op, ClaimRoom& room, Tails& tails,
                                        ClaimReply& reply) {
  Claim allowed = op;
  if (!open_queues(allowed)) return {true, false, transitions_.ready_of(op.tenant)};
  const std::size_t before = reply.jobs.size();
  if (op.max_leased != 0) {
    const std::uint64_t leased = transitions_.count_of(op.tenant, JobState::leased);
    const std::uint64_t left = op.max_leased - std::min<std::uint64_t>(leased, op.max_leased);
    allowed.max_jobs = static_cast<std::uint32_t>(std::min<std::uint64_t>(op.max_jobs, left));
  }
  const bool all = op.from == ClaimFrom::jobs ? claim_jobs(allowed, room, tails, reply)
                                              : claim_suspects(allowed, room, reply);
  const bool at_limit =
      allowed.max_jobs < op.max_jobs && reply.jobs.size() - before == allowed.max_jobs;
  return {all || at_limit, at_limit, transitions_.ready_of(op.tenant)};
}

Result<Reply> LedgerRules::carry_out(const Claim& op) {
  ClaimReply reply;
  ClaimRoom room(op);
  Tails tails(records_, transitions_, op.tenant);
  const Claimed claimed = claim(op, room, tails, reply);
  reply.at_limit = claimed.at_limit;
  reply.ready = claimed.ready;
  return reply;
}

Result<Reply> LedgerRules::carry_out(const Renew& op) {
  RenewReply reply;
  for (const RenewedLease& lease : records_.renew(op.engine, op.leases, op.until_us)) {
    if (!lease.held) {
      reply.lost.push_back(lease.lease);
    } else if (lease.cancel_requested) {
      reply.cancelled.push_back(lease.lease);
    }
  }
  return reply;
}

FinishReply LedgerRules::finish_one(JobRecord& job, const Finish& op) {
  const std::int64_t now_us = transitions_.now_us();
  if (may_run_again(job, op) && ++job.failures < job.max_attempts) {
    return transitions_.run_later(job, *op.error, now_us + retry_pause_us(job.failures));
  }
  return transitions_.end(job, {op.state, op.result, op.error, {}, now_us});
}

void LedgerRules::finish(std::span<const Operation> ends, Replies& replies) {
  std::vector<LeaseId> leases;
  leases.reserve(ends.size());
  for (const Operation& op : ends) leases.push_back(std::get<Finish>(op).lease);
  auto held = records_.find_leased(leases);
  std::set<LeaseId> ended;  // by this set
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto& op = std::get<Finish>(ends[i]);
    if (!is_end(op.state)) {
      replies.push_back(refuse_end_state());
    } else if (!held[i] || held[i]->job.lease != op.lease || ended.contains(op.lease) ||
               (!op.engine.empty() && held[i]->lease.engine != op.engine)) {
      replies.push_back(refuse_stale_lease(op.lease));
    } else {
      ended.insert(op.lease);
      replies.push_back(finish_one(held[i]->job, op));
    }
  }
}

}  // namespace millrace::broker
