#pragma once
// Divides the engines that serve several tenants between these: weighted deficit round robin,
// counted in tokens (job_cost.hpp). The tenants whose jobs wait take turns; this class keeps whose
// turn it is and what each may still take in it, and the ledger carries the turns out, because it
// knows what the next jobs cost (ClaimShared).
//
// What follows, for tenants whose jobs wait all the time:
//   - one with weight w gets w of W tokens, where W is the sum of the weights; over any time it
//     differs from that by at most one turn and the cost of one job of each tenant. Claims of
//     several engines at the same moment may add a turn for each engine;
//   - none waits longer than one turn of each other tenant, which is at most quantum_tokens x its
//     weight and the cost of one job.
// A tenant that waits alone takes what it likes, and is charged nothing for it.
// Thread safety: none.
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "broker/core/tenant_limits.hpp"
#include "broker/ledger/ledger.hpp"

namespace millrace::broker {

inline constexpr std::int64_t quantum_tokens = 256;  // about one short job

class FairShare {
 public:
  // Gives the claim the shares of the tenants that wait, which are sorted.
  void divide(std::span<const std::string* const> waiting, const TenantTable& limits,
              ClaimShared& claim);
  // Notes what a claim with these shares took.
  void settle(const std::vector<TenantShare>& shares, const ClaimReply& reply);

 private:
  std::map<std::string, std::int64_t> deficit_tokens_;  // by tenant
  std::string turn_;                                    // of this tenant
};

}  // namespace millrace::broker
