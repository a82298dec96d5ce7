#include "tests/simulation/suspect_checks.hpp"

#include <utility>

#include "schemas/codec.hpp"

namespace millrace::broker::simulation {

void SuspectChecks::committed(const std::vector<LapsedLease>& live) {
  std::map<std::pair<std::string, std::string>, std::vector<LapsedLease>> held;
  for (const LapsedLease& lease : live) {
    held[{lease.engine, place_of_(lease.lease)}].push_back(lease);
  }
  for (const auto& [place, leases] : held) check_engine(place.first, leases);
  // Only killers may fail.
  for (const auto& [job, tenant] : jobs_) {
    if (job.starts_with("kill") && !failed_.contains(job)) check_failed(job, tenant);
  }
}

// A job that has to run alone shares its engine with none. The suspects on an engine are of one
// incident, and at most half of those that are suspected together.
void SuspectChecks::check_engine(const std::string& engine,
                                 const std::vector<LapsedLease>& leases) {
  std::uint32_t suspects = 0, most = UINT32_MAX;
  std::set<std::uint64_t> incidents;
  for (const LapsedLease& lease : leases) {
    if (lease.alone && leases.size() > 1) violation_("a job that runs alone shares " + engine);
    const auto reply = ask_(GetJob{lease.tenant, lease.job});
    if (!reply) return violation_(lease.job + " is leased and unknown");
    const auto& job = std::get<GetJobReply>(*reply);
    check_history(lease, job);
    if (!job.suspect) continue;
    ++suspects;
    most = std::min(most, suspects_together(job.among));
    incidents.insert(job.incident);
  }
  if (suspects > most) {
    violation_(engine + " runs " + std::to_string(suspects) + " suspects together, not " +
               std::to_string(most));
  }
  if (incidents.size() > 1) violation_(engine + " runs suspects of several incidents");
}

// Deaths never widen a suspicion, and only a lease alone can have counted against the job.
void SuspectChecks::check_history(const LapsedLease& lease, const GetJobReply& job) {
  const Seen now{lease.alone, job.among, job.failures, job.incident};
  const auto [at, fresh] = seen_.try_emplace(lease.job, now);
  const Seen before = std::exchange(at->second, now);
  if (fresh) return;
  if (now.incident != 0 && now.incident == before.incident && now.among > before.among) {
    violation_(lease.job + " is suspected among more jobs than before");
  }
  if (now.failures > before.failures && !before.alone) {
    violation_(lease.job + " is blamed for a death beside other jobs");
  }
}

// Such a job failed without having run, and explains no death.
bool SuspectChecks::was_damaged(const std::string& tenant, const GetJobReply& job) {
  ReadStream read;
  read.tenant = tenant;
  read.stream = job.stream;
  read.from = job.number;
  read.max_entries = 1;
  const auto reply = ask_(read);
  if (!reply || std::get<ReadStreamReply>(*reply).entries.empty()) return false;
  const auto result = decode_result(std::get<ReadStreamReply>(*reply).entries.front().body);
  return result && result->error && result->error->code == Code::ledger_corrupt;
}

// What explains the deaths of an incident closes it.
void SuspectChecks::check_failed(const std::string& name, const std::string& tenant) {
  const auto reply = ask_(GetJob{tenant, name});
  if (!reply || std::get<GetJobReply>(*reply).state != JobState::failed) return;
  failed_.insert(name);
  if (was_damaged(tenant, std::get<GetJobReply>(*reply))) return;
  const Seen last = seen_[name];
  if (!last.alone) violation_(name + " failed beside other jobs");
  if (last.incident == 0) return;
  for (const auto& [other, whose] : jobs_) {
    const auto found = ask_(GetJob{whose, other});
    if (found && std::get<GetJobReply>(*found).incident == last.incident) {
      violation_(other + " is still a suspect of what " + name + " did");
    }
  }
}

}  // namespace millrace::broker::simulation
