#include "tests/simulation/share_checks.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/fair_share.hpp"

namespace millrace::broker::simulation {

ShareChecks::ShareChecks(Ask ask, std::function<void(std::string)> violation,
                         const TenantTable& limits)
    : ask_(std::move(ask)), violation_(std::move(violation)), limits_(limits) {}

void ShareChecks::know(const std::string& tenant, std::uint64_t cost_tokens) {
  largest_[tenant] = std::max(largest_[tenant], cost_tokens);
}

void ShareChecks::asked(const Operation& operation) {
  const auto* claim = std::get_if<Claim>(&operation);
  const auto* shared = std::get_if<ClaimShared>(&operation);
  if (shared != nullptr) claim = shared;
  if (claim == nullptr || claim->from != ClaimFrom::jobs) return;
  asked_[claim->engine].push_back(time_);
  most_under_way_ = std::max(most_under_way_, ++under_way_);
}

// When the broker asked for the claim that was carried out. Those of one engine keep their order.
std::uint64_t ShareChecks::posted(const std::string& engine) {
  auto& times = asked_[engine];
  const std::uint64_t time = times.empty() ? 0 : times.front();
  if (!times.empty()) times.pop_front();
  --under_way_;
  return time;
}

void ShareChecks::carried_out(std::span<const Operation> operations,
                              std::span<const Result<Reply>> replies) {
  for (std::size_t i = 0; i < operations.size(); ++i) {
    const Operation& operation = operations[i];
    if (const auto* claim = std::get_if<Claim>(&operation)) alone(*claim, replies[i]);
    if (const auto* claim = std::get_if<ClaimShared>(&operation)) shared(*claim, replies[i]);
    recount_ = recount_ || std::holds_alternative<CancelJobs>(operation) ||
               std::holds_alternative<Pause>(operation);
    if (!std::holds_alternative<ListTenants>(operation) || !replies[i]) continue;
    for (const TenantInfo& one : std::get<ListTenantsReply>(*replies[i]).tenants) {
      if (one.ready > 0 && limits_.contains(one.tenant)) heard_.insert(one.tenant);
    }
  }
}

void ShareChecks::alone(const Claim& claim, const Result<Reply>& reply) {
  const auto* got = reply ? &std::get<ClaimReply>(*reply) : nullptr;
  if (claim.from != ClaimFrom::jobs) {
    if (got != nullptr && got->at_limit) end(claim.tenant);
    return;
  }
  if (got == nullptr) {
    (void)posted(claim.engine);
    return end(claim.tenant);
  }
  const bool last = got->at_limit || got->ready == 0 || (got->jobs.empty() && !got->more);
  claimed(claim.engine, {{claim.tenant, last}}, *got);
}

void ShareChecks::shared(const ClaimShared& claim, const Result<Reply>& reply) {
  if (!reply) {
    (void)posted(claim.engine);
    for (const TenantShare& share : claim.shares) end(share.tenant);
    return;
  }
  const auto& got = std::get<ClaimReply>(*reply);
  std::map<std::string, bool> tenants;
  for (std::size_t i = 0; i < claim.shares.size(); ++i) {
    const TakenShare& taken = got.shares[i];
    const bool last = taken.tokens > 0 && taken.ready == 0;
    tenants[claim.shares[i].tenant] = taken.exhausted || taken.at_limit || last;
  }
  claimed(claim.engine, tenants, got);
}

// A claim that the broker asked for before it knew that a tenant waits need not have it. `tenants`:
// with whether they have no more for it, so that others may have got what was theirs.
void ShareChecks::claimed(const std::string& engine, const std::map<std::string, bool>& tenants,
                          const ClaimReply& reply) {
  const std::uint64_t time = posted(engine);
  for (const auto& [tenant, since] : since_) {
    if (since > time || tenants.contains(tenant)) continue;
    violation_(tenant + " waits and has no part in a claim of " + engine);
  }
  for (const auto& [tenant, last] : tenants) {
    if (last) end(tenant);
  }
  std::map<std::string, double> tokens;
  for (const ClaimedJob& job : reply.jobs) {
    tokens[job.tenant] += static_cast<double>(job.cost_tokens);
  }
  for (auto first = since_.begin(); first != since_.end(); ++first) {
    for (auto second = std::next(first); second != since_.end(); ++second) {
      const Pair pair{first->first, second->first};
      if (std::max(first->second, second->second) > time) {
        pairs_.erase(pair);
      } else {
        compare(pair, pairs_[pair], tokens);
      }
    }
  }
}

void ShareChecks::compare(const Pair& pair, Both& both, std::map<std::string, double> tokens) {
  const double first = tokens[pair.first] / limits_.at(pair.first).weight;
  const double second = tokens[pair.second] / limits_.at(pair.second).weight;
  ++compared_;
  both.now += first - second;
  both.first += first;
  both.second += second;
  both.least = std::min(both.least, both.now);
  both.most = std::max(both.most, both.now);
  const double most = bound(pair);
  const double before = std::exchange(both.got, std::min(both.first, both.second));
  bounds_ +=
      static_cast<std::uint64_t>(both.got / most) - static_cast<std::uint64_t>(before / most);
  if (both.most - both.least <= most) return;
  violation_("the shares of " + pair.first + " and " + pair.second + " differ by " +
             std::to_string(both.most - both.least) + " tokens by weight, not " +
             std::to_string(most));
}

double ShareChecks::bound(const Pair& pair) const {
  const auto at_once = static_cast<double>(most_under_way_);
  double out = static_cast<double>(quantum_tokens) * (most_under_way_ > 1 ? 1 + at_once : 1);
  for (const std::string& tenant : {pair.first, pair.second}) {
    out += at_once * static_cast<double>(largest_.at(tenant)) / limits_.at(tenant).weight;
  }
  return out;
}

void ShareChecks::end(const std::string& tenant) {
  heard_.erase(tenant);
  since_.erase(tenant);
  std::erase_if(pairs_, [&](const auto& item) {
    return item.first.first == tenant || item.first.second == tenant;
  });
}

void ShareChecks::answered() {
  ++time_;
  if (std::exchange(recount_, false)) count();
  for (const std::string& tenant : heard_) since_.try_emplace(tenant, time_);
  heard_.clear();
}

// Those that have no more ready jobs wait no more.
void ShareChecks::count() {
  const auto reply = ask_(ListTenants{});
  if (!reply) return violation_("no list of tenants: " + reply.error().text());
  for (const TenantInfo& one : std::get<ListTenantsReply>(*reply).tenants) {
    if (one.ready == 0) end(one.tenant);
  }
}

void ShareChecks::unknown() {
  heard_.clear();
  since_.clear();
  pairs_.clear();
}

void ShareChecks::restarted() {
  unknown();
  asked_.clear();
  under_way_ = most_under_way_ = 0;
}

}  // namespace millrace::broker::simulation
