#include "tests/simulation/ledger_checks.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace millrace::broker::simulation {
namespace {

constexpr std::uint64_t all_each_commits = 32;

std::uint64_t& count_of(JobCounts& counts, JobState state) {
  const auto places = std::to_array({&counts.queued, &counts.leased, &counts.completed,
                                     &counts.failed, &counts.cancelled, &counts.expired});
  return *places.at(static_cast<std::size_t>(state));
}

std::string text(JobCounts counts) {
  std::string out;
  for (int state = 0; state < 6; ++state) {
    out += std::to_string(count_of(counts, static_cast<JobState>(state))) + (state < 5 ? "," : "");
  }
  return out;
}

}  // namespace

void LedgerChecks::know(const std::string& job, const std::string& tenant, const std::string& batch,
                        const Body& body) {
  jobs_[job] = {tenant, batch, body};
  high_.try_emplace(tenant);
  suspects_.know(job, tenant);
}

std::vector<LapsedLease> LedgerChecks::live_leases() {
  FindLapsed every;
  every.all = true;
  const auto reply = ask_(every);
  if (reply) return std::get<FindLapsedReply>(*reply).leases;
  violation_("no list of leases: " + reply.error().text());
  return {};
}

// Notes what is paused, and the leases that there are, before a commit that may hand out jobs.
void LedgerChecks::begins(std::span<const Operation> operations) {
  tenants_.begins(operations);
  order_.begins(operations);
  claims_ = std::ranges::any_of(operations, [](const Operation& op) {
    return std::holds_alternative<Claim>(op) || std::holds_alternative<ClaimShared>(op);
  });
  if (!claims_) return;
  resumes_ = std::ranges::any_of(
      operations, [](const Operation& op) { return std::holds_alternative<Resume>(op); });
  for (const LapsedLease& lease : live_leases()) last_lease_ = std::max(last_lease_, lease.lease);
  std::set<Batch> batches;
  for (const auto& [tenant, high] : high_) batches.emplace(tenant, "");
  for (const auto& [id, known] : jobs_) batches.emplace(known.tenant, known.batch);
  paused_.clear();
  for (const auto& [tenant, batch] : batches) {
    const auto reply = ask_(Count{tenant, batch});
    if (!reply) return violation_("no counts: " + reply.error().text());
    const auto& counted = std::get<CountReply>(*reply);
    Paused& paused = paused_[tenant];
    if (batch.empty()) {
      paused.all = counted.paused;
      paused.models = {counted.paused_models.begin(), counted.paused_models.end()};
    } else if (counted.paused) {
      paused.batches.insert(batch);
    }
  }
}

// What was paused before a commit that resumes nothing gets no lease in it.
void LedgerChecks::check_pauses(const std::vector<LapsedLease>& live) {
  if (resumes_ || !claims_) return;
  for (const LapsedLease& lease : live) {
    if (lease.lease <= last_lease_) continue;
    const auto reply = ask_(GetJob{lease.tenant, lease.job});
    if (!reply) continue;
    const auto& job = std::get<GetJobReply>(*reply);
    const Paused& paused = paused_[lease.tenant];
    if (paused.all || paused.models.contains(job.model) || paused.batches.contains(job.batch)) {
      violation_(lease.job + " was handed out while it was paused");
    }
  }
}

void LedgerChecks::committed() {
  const auto live = live_leases();
  check_pauses(live);
  tenants_.committed(live);
  std::set<std::string> leased;
  std::set<LeaseId> ids;
  for (const LapsedLease& lease : live) {
    if (!leased.insert(lease.job).second) violation_(lease.job + " has two leases");
    if (!ids.insert(lease.lease).second) violation_("a lease is held twice");
  }
  // A full disk refuses to give leases back, so that the ledger has more of an engine than the
  // engine has. They lapse.
  if (!record_.may_be_full()) suspects_.committed(live);
  if (++commits_ % all_each_commits == 0) all();
}

void LedgerChecks::all() {
  std::map<std::string, LeaseId> leased;
  for (const LapsedLease& lease : live_leases()) leased[lease.job] = lease.lease;
  std::map<Batch, JobCounts> counts;
  std::map<std::string, std::uint64_t> ready;
  for (auto& [id, known] : jobs_) {
    JobCounts& of_tenant = counts[{known.tenant, ""}];
    JobCounts& of_batch = counts[{known.tenant, known.batch}];
    const auto reply = ask_(GetJob{known.tenant, id});
    if (!reply) {
      if (record_.acknowledged.contains(id)) violation_(id + " was acknowledged and is lost");
      continue;
    }
    const auto& job = std::get<GetJobReply>(*reply);
    ++count_of(of_tenant, job.state);
    if (!known.batch.empty()) ++count_of(of_batch, job.state);
    ready[known.tenant] += job.state == JobState::queued && !job.suspect && !job.start_us &&
                           job.paused == PausedBy::nothing;
    check_job(id, known, job);
    const auto lease = leased.find(id);
    const LeaseId held = lease == leased.end() ? 0 : lease->second;
    if (job.lease.value_or(0) != held) violation_(id + " is not leased as it says");
  }
  check_counts(counts);
  check_ready(ready);
  for (const auto& [tenant, high] : high_) check_stream(tenant);
}

// A job ends once: its end and the number of its result stay.
void LedgerChecks::check_job(const std::string& id, Known& known, const GetJobReply& job) {
  if ((job.number != 0) != is_end(job.state)) violation_(id + " has an end or a number alone");
  if (known.number != 0 && (job.number != known.number || job.state != known.end)) {
    violation_(id + " has ended twice");
  }
  known.number = job.number;
  known.end = job.state;
}

void LedgerChecks::check_counts(const std::map<Batch, JobCounts>& counts) {
  for (const auto& [place, expected] : counts) {
    const auto& [tenant, batch] = place;
    const auto reply = ask_(Count{tenant, batch});
    if (!reply) return violation_("no counts: " + reply.error().text());
    const JobCounts& counted = std::get<CountReply>(*reply).counts;
    if (counted == expected) continue;
    violation_(tenant + ": batch '" + batch + "' counts " + text(counted) + " and has " +
               text(expected));
  }
}

// Jobs that a claim could hand out now are counted, and no others.
void LedgerChecks::check_ready(const std::map<std::string, std::uint64_t>& expected) {
  const auto reply = ask_(ListTenants{});
  if (!reply) return violation_("no list of tenants: " + reply.error().text());
  for (const TenantInfo& one : std::get<ListTenantsReply>(*reply).tenants) {
    const auto ready = expected.find(one.tenant);
    const std::uint64_t jobs = ready == expected.end() ? 0 : ready->second;
    if (one.ready == jobs) continue;
    violation_("of the queued jobs of " + one.tenant + " " + std::to_string(jobs) +
               " can be handed out, and " + std::to_string(one.ready) + " are counted");
  }
}

// The numbers have no gaps, and each belongs to the job that has it.
void LedgerChecks::check_stream(const std::string& tenant) {
  std::uint64_t& high = high_[tenant];
  ReadStream read;
  read.tenant = tenant;
  read.stream = "results";
  read.from = high + 1;
  read.max_entries = 1'000'000;
  const auto reply = ask_(read);
  if (!reply) return violation_("the stream cannot be read: " + reply.error().text());
  const auto& stream = std::get<ReadStreamReply>(*reply);
  for (const Entry& entry : stream.entries) {
    if (entry.number != high + 1) {
      violation_("number " + std::to_string(high + 1) + " of " + tenant + " is missing");
    }
    high = entry.number;
    if (!ended_.emplace(entry.job, entry.number).second) violation_(entry.job + " has two results");
    const auto known = jobs_.find(entry.job);
    if (known == jobs_.end() || known->second.tenant != tenant ||
        known->second.number != entry.number) {
      violation_("number " + std::to_string(entry.number) + " is not that of " + entry.job);
    }
  }
  if (stream.high != high) violation_("the stream lacks its last numbers");
}

void LedgerChecks::handed_out(const std::string& engine, const Lease& lease) {
  const auto [at, fresh] = given_.try_emplace(lease.lease, engine, lease.job);
  if (!fresh && at->second != std::pair(engine, lease.job)) {
    violation_("lease " + std::to_string(lease.lease) + " was handed out twice");
  }
  const auto known = jobs_.find(lease.job);
  if (known == jobs_.end() || known->second.body != lease.body) {
    violation_(lease.job + " was handed out with another body");
  }
}

}  // namespace millrace::broker::simulation
