#include "broker/core/fair_share.hpp"

#include <algorithm>

namespace millrace::broker {

SharesAsked FairShare::divide(std::span<const std::string* const> waiting,
                              const TenantTable& limits, ClaimShared& claim) {
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
  SharesAsked asked{shares, {}};
  for (const TenantShare& share : shares) asked.turns.push_back(turns_[share.tenant]);
  return asked;
}

void FairShare::settle(const SharesAsked& asked, const ClaimReply& reply,
                       const TenantTable& limits) {
  const auto& shares = asked.shares;
  bool begun = false;  // a turn that no other claim has begun meanwhile
  std::uint64_t tokens = 0;
  std::int64_t quanta = 0;  // of those that had jobs
  std::set<std::string> waited;
  for (std::size_t i = 0; i < reply.shares.size(); ++i) {
    const TakenShare& taken = reply.shares[i];
    tokens += taken.tokens;
    if (taken.tokens > 0 || !taken.exhausted) quanta += shares[i].quantum_tokens;
    waited.insert(shares[i].tenant);
    std::int64_t& deficit = deficit_tokens_[shares[i].tenant];
    std::int64_t& turns = turns_[shares[i].tenant];
    const std::int64_t fresh = std::max<std::int64_t>(asked.turns[i] + taken.turns - turns, 0);
    turns += fresh;
    begun = begun || fresh > 0;
    deficit += fresh * shares[i].quantum_tokens - static_cast<std::int64_t>(taken.tokens);
    if (taken.exhausted) deficit = std::min<std::int64_t>(deficit, 0);  // nothing is saved up
  }
  // A claim that has begun no turn of its own is behind the others.
  if (begun && reply.turn < shares.size()) turn_ = shares[reply.turn].tenant;
  pay_debts(tokens, quanta, waited, limits);
}

void FairShare::took_alone(const std::string& tenant, std::uint64_t tokens,
                           const TenantTable& limits) {
  std::int64_t& deficit = deficit_tokens_[tenant];
  deficit = std::max<std::int64_t>(deficit, 0);
  pay_debts(tokens, quantum_tokens * limits_of(limits, tenant).weight, {tenant}, limits);
}

// Those that did not wait are paid their part of what the others took, as far as they owe.
void FairShare::pay_debts(std::uint64_t tokens, std::int64_t quanta,
                          const std::set<std::string>& waited, const TenantTable& limits) {
  if (quanta > 0) {
    for (auto& [tenant, deficit] : deficit_tokens_) {
      if (deficit >= 0 || waited.contains(tenant)) continue;
      const std::int64_t own = quantum_tokens * limits_of(limits, tenant).weight;
      const std::int64_t part = (static_cast<std::int64_t>(tokens) * own + quanta - 1) / quanta;
      deficit = std::min<std::int64_t>(deficit + part, 0);
    }
  }
  std::erase_if(deficit_tokens_, [](const auto& item) { return item.second == 0; });
}

}  // namespace millrace::broker
