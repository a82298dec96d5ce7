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

void LedgerChecks::know(const std::string& job, const std::string& batch, const Body& body) {
  jobs_[job] = {batch, body};
  suspects_.know(job);
}

std::vector<LapsedLease> LedgerChecks::live_leases() {
  FindLapsed every;
  every.all = true;
  const auto reply = ask_(every);
  if (reply) return std::get<FindLapsedReply>(*reply).leases;
  violation_("no list of leases: " + reply.error().text());
  return {};
}

// Notes what is paused, and the leases that there are.
void LedgerChecks::begins(std::span<const Operation> operations) {
  resumes_ = std::ranges::any_of(
      operations, [](const Operation& op) { return std::holds_alternative<Resume>(op); });
  for (const LapsedLease& lease : live_leases()) last_lease_ = std::max(last_lease_, lease.lease);
  std::set<std::string> batches{""};
  for (const auto& [id, known] : jobs_) batches.insert(known.batch);
  paused_batches_.clear();
  for (const std::string& batch : batches) {
    const auto reply = ask_(Count{default_tenant, batch});
    if (!reply) return violation_("no counts: " + reply.error().text());
    const auto& counted = std::get<CountReply>(*reply);
    if (batch.empty()) {
      all_paused_ = counted.paused;
      paused_models_ = {counted.paused_models.begin(), counted.paused_models.end()};
    } else if (counted.paused) {
      paused_batches_.insert(batch);
    }
  }
}

// What was paused before a commit that resumes nothing gets no lease in it.
void LedgerChecks::check_pauses(const std::vector<LapsedLease>& live) {
  if (resumes_) return;
  for (const LapsedLease& lease : live) {
    if (lease.lease <= last_lease_) continue;
    const auto reply = ask_(GetJob{default_tenant, lease.job});
    if (!reply) continue;
    const auto& job = std::get<GetJobReply>(*reply);
    if (all_paused_ || paused_models_.contains(job.model) || paused_batches_.contains(job.batch)) {
      violation_(lease.job + " was handed out while it was paused");
    }
  }
}

void LedgerChecks::committed() {
  const auto live = live_leases();
  check_pauses(live);
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
  std::map<std::string, JobCounts> counts{{"", {}}};
  std::uint64_t ready = 0;
  for (auto& [id, known] : jobs_) {
    counts.try_emplace(known.batch);
    const auto reply = ask_(GetJob{default_tenant, id});
    if (!reply) {
      if (record_.acknowledged.contains(id)) violation_(id + " was acknowledged and is lost");
      continue;
    }
    const auto& job = std::get<GetJobReply>(*reply);
    ++count_of(counts[""], job.state);
    if (!known.batch.empty()) ++count_of(counts[known.batch], job.state);
    ready += job.state == JobState::queued && !job.suspect && !job.start_us &&
             job.paused == PausedBy::nothing;
    check_job(id, known, job);
    const auto lease = leased.find(id);
    const LeaseId held = lease == leased.end() ? 0 : lease->second;
    if (job.lease.value_or(0) != held) violation_(id + " is not leased as it says");
  }
  check_counts(counts);
  check_ready(ready);
  check_stream();
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

void LedgerChecks::check_counts(const std::map<std::string, JobCounts>& counts) {
  for (const auto& [batch, expected] : counts) {
    const auto reply = ask_(Count{default_tenant, batch});
    if (!reply) return violation_("no counts: " + reply.error().text());
    const JobCounts& counted = std::get<CountReply>(*reply).counts;
    if (counted == expected) continue;
    violation_("batch '" + batch + "' counts " + text(counted) + " and has " + text(expected));
  }
}

// Jobs that a claim could hand out now are counted, and no others.
void LedgerChecks::check_ready(std::uint64_t expected) {
  const auto reply = ask_(ListTenants{});
  if (!reply) return violation_("no list of tenants: " + reply.error().text());
  std::uint64_t counted = 0;
  for (const TenantInfo& one : std::get<ListTenantsReply>(*reply).tenants) {
    if (one.tenant == default_tenant) counted = one.ready;
  }
  if (counted == expected) return;
  violation_("of the queued jobs " + std::to_string(expected) + " can be handed out, and " +
             std::to_string(counted) + " are counted");
}

// The numbers have no gaps, and each belongs to the job that has it.
void LedgerChecks::check_stream() {
  ReadStream read;
  read.tenant = default_tenant;
  read.stream = "results";
  read.from = next_number_;
  read.max_entries = 1'000'000;
  const auto reply = ask_(read);
  if (!reply) return violation_("the stream cannot be read: " + reply.error().text());
  const auto& stream = std::get<ReadStreamReply>(*reply);
  for (const Entry& entry : stream.entries) {
    if (entry.number != next_number_)
      violation_("number " + std::to_string(next_number_) + " is missing");
    next_number_ = entry.number + 1;
    if (!ended_.emplace(entry.job, entry.number).second) violation_(entry.job + " has two results");
    const auto known = jobs_.find(entry.job);
    if (known == jobs_.end() || known->second.number != entry.number) {
      violation_("number " + std::to_string(entry.number) + " is not that of " + entry.job);
    }
  }
  if (stream.high + 1 != next_number_) violation_("the stream lacks its last numbers");
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
