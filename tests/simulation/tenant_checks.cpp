#include "tests/simulation/tenant_checks.hpp"

#include <algorithm>
#include <iterator>

namespace millrace::broker::simulation {

TenantChecks::TenantChecks(Ask ask, std::function<void(std::string)> violation,
                           const Record& record, const TenantTable& limits)
    : ask_(std::move(ask)), violation_(std::move(violation)), record_(record), limits_(limits) {}

JobCounts TenantChecks::counts_of(const std::string& tenant) {
  const auto reply = ask_(Count{tenant, ""});
  if (reply) return std::get<CountReply>(*reply).counts;
  violation_("no counts: " + reply.error().text());
  return {};
}

void TenantChecks::begins(std::span<const Operation> operations) {
  may_wait_.clear();
  for (const Operation& operation : operations) {
    const auto* submit = std::get_if<SubmitJob>(&operation);
    if (submit == nullptr || may_wait_.contains(submit->tenant)) continue;
    const std::uint64_t most = limits_of(limits_, submit->tenant).queued;
    if (most == limits::queued_jobs) continue;
    may_wait_[submit->tenant] = std::max<std::uint64_t>(counts_of(submit->tenant).queued, most);
  }
}

void TenantChecks::carried_out(std::span<const Operation> operations,
                               std::span<const Result<Reply>> replies) {
  std::map<std::string, std::uint64_t> stored;
  for (std::size_t i = 0; i < operations.size(); ++i) {
    if (!replies[i]) continue;
    if (const auto* submit = std::get_if<SubmitJob>(&operations[i])) {
      stored[submit->tenant] += !std::get<SubmitReply>(*replies[i]).known;
    }
    if (const auto* given = std::get_if<GiveBackReply>(&*replies[i])) {
      for (const std::string& job : given->returned) {
        const auto at = may_wait_.find(record_.tenants.at(job));
        if (at != may_wait_.end()) ++at->second;
      }
    }
  }
  for (const auto& [tenant, most] : may_wait_) {
    if (stored[tenant] == 0) continue;
    const std::uint64_t queued = counts_of(tenant).queued;
    if (queued > most) violation_(std::to_string(queued) + " jobs of " + tenant + " wait");
  }
}

void TenantChecks::committed(const std::vector<LapsedLease>& live) {
  std::map<std::string, std::uint64_t> held;
  for (const LapsedLease& lease : live) ++held[lease.tenant];
  check_leases(held);
  const auto at =
      std::next(limits_.begin(), static_cast<std::ptrdiff_t>(commits_++ % limits_.size()));
  const std::uint64_t leased = counts_of(at->first).leased;
  if (leased == held[at->first]) return;
  violation_(at->first + " holds " + std::to_string(held[at->first]) + " leases, and " +
             std::to_string(leased) + " are counted");
}

void TenantChecks::check_leases(const std::map<std::string, std::uint64_t>& held) {
  for (const auto& [tenant, leases] : held) {
    const std::uint64_t most = limits_of(limits_, tenant).leases;
    if (most == 0 || leases < most) continue;
    ++at_most_leases_;
    if (leases > most) violation_(tenant + " holds " + std::to_string(leases) + " leases");
  }
}

}  // namespace millrace::broker::simulation
