// Claims of several engines that are under way at the same moment share the turns of the tenants.
#include "broker/core/fair_share.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "broker/ledger/memory_ledger.hpp"

namespace millrace::broker::testing {
namespace {

// Tenants with many jobs each, and claims of one job.
class Turns {
 public:
  Turns(std::vector<std::string> tenants, TenantTable limits, std::int64_t cost_tokens)
      : tenants_(std::move(tenants)), limits_(std::move(limits)), cost_tokens_(cost_tokens) {
    for (const std::string& tenant : tenants_) {
      for (int i = 0; i < 3'000; ++i) {
        SubmitJob job;
        job.tenant = tenant;
        job.id = tenant + std::to_string(i);
        job.hash = job.id;
        job.body = "x";
        job.model = "m";
        job.stream = "results";
        job.cost_tokens = static_cast<std::uint64_t>(cost_tokens);
        apply(job);
      }
    }
  }

  // Whose turn the next claim begins, because it ends the one before; empty: it ends none.
  std::string begins() {
    ClaimShared claim;
    divide(claim);
    return claim.shares[0].deficit_tokens <= cost_tokens_ ? claim.shares[1].tenant : "";
  }
  // So many claims are asked for together, and carried out one after the other.
  void claim(int together) {
    std::vector<ClaimShared> claims(static_cast<std::size_t>(together));
    std::vector<SharesAsked> asked;
    for (ClaimShared& claim : claims) asked.push_back(divide(claim));
    for (std::size_t i = 0; i < claims.size(); ++i) {
      const Reply reply = apply(claims[i]);
      const auto& got = std::get<ClaimReply>(reply);
      for (const ClaimedJob& job : got.jobs) {
        taken_[job.tenant] += static_cast<int>(job.cost_tokens);
      }
      share_.settle(asked[i], got, limits_);
    }
  }
  int taken(const std::string& tenant) { return taken_[tenant]; }

 private:
  SharesAsked divide(ClaimShared& claim) {
    std::vector<const std::string*> waiting;
    for (const std::string& tenant : tenants_) waiting.push_back(&tenant);
    claim.engine = "engine";
    claim.model = "m";
    claim.max_jobs = 1;
    return share_.divide(waiting, limits_, claim);
  }
  Reply apply(const Operation& operation) {
    return *ledger_->apply(std::span(&operation, 1), 1'000'000)->front();
  }

  const std::vector<std::string> tenants_;
  const TenantTable limits_;
  const std::int64_t cost_tokens_;
  std::unique_ptr<Ledger> ledger_ =
      make_memory_ledger(make_memory_store({[](const EndingJob&, const Outcome& how) {
                                              return Published{"", how.state, {}};
                                            },
                                            "epoch"}));
  FairShare share_;
  std::map<std::string, int> taken_;
};

// However often two engines ask together when the turn of one of the tenants begins.
TEST(FairShare, ATurnThatSeveralClaimsBeginIsOneTurn) {
  constexpr int cost_tokens = 100, at_once = 2;
  for (const std::string favoured : {"a", "b", "c"}) {
    Turns turns({"a", "b", "c"}, {}, cost_tokens);
    for (int i = 0; i < 2'000; ++i) turns.claim(turns.begins() == favoured ? at_once : 1);
    for (const std::string tenant : {"a", "b", "c"}) {
      EXPECT_NEAR(turns.taken(favoured), turns.taken(tenant),
                  (1 + at_once) * static_cast<int>(quantum_tokens) + at_once * 2 * cost_tokens)
          << tenant << " beside " << favoured;
    }
  }
}

}  // namespace
}  // namespace millrace::broker::testing
