// The rules of suspects: which jobs become suspects when an engine dies, in which groups they run
// again, and when one of them fails.
//
//   64 jobs under way, one of them ends its engine each time:
//   deaths with 64, 32, 16, 8, 4 and 2 suspects, then 2 alone: at most 2 + log2 64 = 8
//
// Two things add deaths to these, and both depend on time. A job that its engine called waiting is
// excused for its first two hand-outs (excused_hand_outs), also where it killed the engine before
// that could tell that it began. And a killer that died beside the suspects of another is of that
// one's incident: when the other is found first, it is a normal job again and begins anew. So the
// i-th killer to be found costs at most 2 + i x (2 + log2 n) deaths, n being what an engine holds.
//
// Other jobs may share the engine with a group, so that no row stays empty. They share its risk as
// well: a death makes them suspects of the same incident, which run after the narrower groups.
#include <algorithm>
#include <map>
#include <set>

#include "broker/ledger/ledger_rules.hpp"

namespace millrace::broker {

bool LedgerRules::claim_suspects(const Claim& op, ClaimRoom& room, ClaimReply& reply) {
  std::uint32_t among = 0;
  bool aside = false;  // paused ones may hide others
  while (reply.jobs.empty() && (among = records_.next_among(op.tenant, among)) != 0) {
    if (op.from == ClaimFrom::groups && runs_alone(among)) continue;
    std::optional<std::uint64_t> incident;
    for (ClaimableJob& next : records_.claimable(op, among, transitions_.now_us())) {
      if (set_aside_if_paused(next.job)) {
        aside = true;
        continue;
      }
      if (next.body) {
        if (reply.jobs.size() == suspects_together(among)) break;
        const std::uint64_t own = next.job.suspicion->incident;
        if (incident.value_or(own) != own) continue;
        incident = own;
      }
      if (!hand_out(std::move(next), op, room, reply)) break;
    }
  }
  reply.more = aside && reply.jobs.empty();
  return reply.jobs.empty();
}

namespace {

// Marks the jobs that were under way when their engine died.
void mark(std::span<LeasedJob* const> under_way, std::int64_t now_us) {
  std::vector<LeasedJob*> suspects;
  std::ranges::copy_if(under_way, std::back_inserter(suspects),
                       [](const LeasedJob* one) { return one->job.suspicion.has_value(); });
  std::uint64_t incident = 0;
  if (!suspects.empty()) {
    incident = suspects.front()->job.suspicion->incident;
  } else {
    for (const LeasedJob* one : under_way) {
      if (incident == 0 || one->lease.lease < incident) incident = one->lease.lease;
    }
  }
  for (LeasedJob* one : under_way) {
    auto& suspicion = one->job.suspicion;
    if (suspicion) {
      suspicion->among = std::min(suspicion->among, static_cast<std::uint32_t>(suspects.size()));
    } else {
      suspicion = {now_us, incident, static_cast<std::uint32_t>(under_way.size())};
    }
  }
}

void note_tenant(const std::string& tenant, GiveBackReply& reply) {
  if (std::ranges::find(reply.tenants, tenant) == reply.tenants.end()) {
    reply.tenants.push_back(tenant);
  }
}

}  // namespace

void LedgerRules::close_incident(std::uint64_t incident, GiveBackReply& reply) {
  if (incident == 0) return;
  for (const JobName& name : records_.jobs_of_incident(incident)) {
    auto job = records_.find_job(name.tenant, name.job);
    // Of another tenant it may have changed since it was found, by another broker.
    if (!job || !job->suspicion || job->suspicion->incident != incident) continue;
    transitions_.clear_suspicion(*job);
    if (job->state == JobState::queued) note_tenant(name.tenant, reply);
  }
}

void LedgerRules::give_back(JobRecord& job, bool proven, GiveBackReply& reply) {
  if (proven) ++job.failures;
  if (job.cancel_requested) {
    reply.ended.push_back(transitions_.end_here(job, JobState::cancelled, Code::cancelled));
  } else if (proven && job.failures >= job.max_attempts) {
    const std::uint64_t incident = job.suspicion->incident;
    reply.ended.push_back(transitions_.end_here(job, JobState::failed, Code::engine_died));
    close_incident(incident, reply);
  } else {
    transitions_.put_back(job);
    reply.returned.push_back(job.job);
    note_tenant(job.tenant, reply);
  }
}

Result<Reply> LedgerRules::carry_out(const GiveBack& op) {
  std::map<std::string, std::uint64_t> held;  // leases an engine had when it died
  std::vector<LeasedJob> chosen;
  std::set<LeaseId> seen;
  auto leased = records_.find_leased(op.leases);
  // Under the locks of the leases' tenants, so that no other broker renews one meanwhile.
  if (op.only_own) seen = records_.held_elsewhere(op.leases);
  for (auto& found : leased) {
    if (!found || (!op.engine.empty() && found->lease.engine != op.engine)) continue;
    if (!seen.insert(found->lease.lease).second) continue;
    const std::string& engine = found->lease.engine;
    if (!held.contains(engine)) held[engine] = records_.count_leases(engine);
    chosen.push_back(*std::move(found));
  }
  const std::set<LeaseId> waiting(op.waiting.begin(), op.waiting.end());
  std::vector<LeasedJob*> under_way;
  std::set<LeaseId> proven;
  for (LeasedJob& one : chosen) {
    const LeaseId lease = one.lease.lease;
    const bool excused = waiting.contains(lease) && one.job.attempts <= excused_hand_outs;
    if (op.blame != Blame::died || excused) continue;
    under_way.push_back(&one);
    if (one.lease.alone && held[one.lease.engine] == 1) proven.insert(lease);
  }
  mark(under_way, transitions_.now_us());
  GiveBackReply reply;
  for (LeasedJob& one : chosen) give_back(one.job, proven.contains(one.lease.lease), reply);
  return reply;
}

}  // namespace millrace::broker
