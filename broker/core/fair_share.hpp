#pragma once
// Divides the engines that serve several tenants between these: weighted deficit round robin,
// counted in tokens (job_cost.hpp). The tenants whose jobs wait take turns; this class keeps whose
// turn it is and what each may still take in it, and the ledger carries the turns out, because it
// knows what the next jobs cost (ClaimShared).
//
// What follows, for tenants whose jobs wait all the time:
//   - one with weight w gets w of W tokens, where W is the sum of the weights; over any time it
//     differs from that by at most one turn and the cost of one job of each tenant. Claims of
//     several engines at the same moment may add a turn and a job for each engine;
//   - one that owes nothing waits for one turn of each other tenant at most, which is its weight
//     times quantum_tokens, and the cost of one job.
// A turn ends with a whole job, so a tenant may take more than its turn had, and owes the rest:
// less than the cost of one job, for each engine whose claim is under way at that moment. It pays
// first: with a debt of D tokens and weight w it waits until the others have taken D x (W - w) / w
// tokens.
//
// Claims that are under way at the same moment may each begin the same turn of a tenant. It is one
// turn: what they take of it together is counted, and its tokens are given once.
//
// A tenant without jobs saves nothing up, and its debt shrinks as if it waited: by w tokens for
// each V tokens that others take, V being the sum of their weights. So nobody gains by bringing one
// expensive job at a time, and nobody pays for what is long past. A tenant that waits alone takes
// what it likes, is charged nothing for it, and owes nothing any more, for nobody is kept waiting.
// Thread safety: none.
#include <cstdint>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "broker/core/tenant_limits.hpp"
#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

inline constexpr std::int64_t quantum_tokens = 256;  // about one short job

// The shares of a claim that is under way, and how many turns their tenants had begun before it.
struct SharesAsked {
  std::vector<TenantShare> shares;
  std::vector<std::int64_t> turns;
};

class FairShare {
 public:
  // Gives the claim the shares of the tenants that wait, which are sorted.
  SharesAsked divide(std::span<const std::string* const> waiting, const TenantTable& limits,
                     ClaimShared& claim);
  // Notes what a claim with these shares took.
  void settle(const SharesAsked& asked, const ClaimReply& reply, const TenantTable& limits);
  // A tenant that waited alone took so many tokens.
  void took_alone(const std::string& tenant, std::uint64_t tokens, const TenantTable& limits);

 private:
  void pay_debts(std::uint64_t tokens, std::int64_t quanta, const std::set<std::string>& waited,
                 const TenantTable& limits);

  std::map<std::string, std::int64_t> deficit_tokens_;  // by tenant
  std::map<std::string, std::int64_t> turns_;           // that each tenant has begun
  std::string turn_;                                    // of this tenant
};

}  // namespace millrace::broker
