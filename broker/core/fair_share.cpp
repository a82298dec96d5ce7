#include "broker/core/fair_share.hpp"

#include <algorithm>

namespace millrace::broker {

void FairShare::divide(std::span<const std::string* const> waiting, const TenantTable& limits,
                       ClaimShared& claim) {
  auto& shares = claim.shares;
  for (const std::string* tenant : waiting) {
    const TenantLimits its = limits_of(limits, *tenant);
    shares.push_back({*tenant, deficit_tokens_[*tenant], quantum_tokens * its.weight, its.leases});
  }
  // Claims of several engines at the same moment may have used a turn up.
  const bool tokens_left = deficit_tokens_[turn_] > 0;
  const auto first = tokens_left
                         ? std::ranges::lower_bound(shares, turn_, {}, &TenantShare::tenant)
                         : std::ranges::upper_bound(shares, turn_, {}, &TenantShare::tenant);
  std::ranges::rotate(shares, first);
  claim.goes_on = tokens_left && shares.front().tenant == turn_;
}

void FairShare::settle(const std::vector<TenantShare>& shares, const ClaimReply& reply) {
  for (std::size_t i = 0; i < reply.shares.size(); ++i) {
    const TakenShare& taken = reply.shares[i];
    std::int64_t& deficit = deficit_tokens_[shares[i].tenant];
    deficit += taken.turns * shares[i].quantum_tokens - static_cast<std::int64_t>(taken.tokens);
    if (taken.exhausted) deficit = std::min<std::int64_t>(deficit, 0);  // nothing is saved up
  }
  if (reply.turn < shares.size()) turn_ = shares[reply.turn].tenant;
}

}  // namespace millrace::broker
