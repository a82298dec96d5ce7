// Every ledger must divide a claim between tenants as tested here.
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class ShareTest : public LedgerTest {
 protected:
  void submit_jobs(const std::string& whose, int jobs, std::uint64_t cost) {
    for (int i = 0; i < jobs; ++i) {
      SubmitJob op = job(numbered(whose, next_++));
      op.tenant = whose;
      op.cost_tokens = cost;
      submit(op);
    }
  }
  static ClaimShared shared(std::uint32_t max_jobs, std::vector<TenantShare> shares) {
    return {claim(max_jobs), std::move(shares)};
  }
  // The tenants of the jobs, in order, one letter each.
  static std::string order(const ClaimReply& reply) {
    std::string out;
    for (const ClaimedJob& one : reply.jobs) out += one.tenant;
    return out;
  }

 private:
  std::uint64_t next_ = 0;
};

INSTANTIATE_TEST_SUITE_P(Ledgers, ShareTest, every_kind(), kind_name);

TEST_P(ShareTest, TenantsTakeTurnsInTokensAndByTheirQuanta) {
  submit_jobs("a", 20, 100);
  submit_jobs("b", 20, 50);
  const auto reply = expect<ClaimReply>(shared(13, {{"a", 0, 100}, {"b", 0, 200}}));
  EXPECT_EQ(order(reply), "abbbbabbbbabb");
  EXPECT_EQ(reply.turn, 1u);
  EXPECT_EQ(reply.shares.at(0).turns, 3);
  EXPECT_EQ(reply.shares.at(0).tokens, 300u);
  EXPECT_EQ(reply.shares.at(1).turns, 3);
  EXPECT_EQ(reply.shares.at(1).tokens, 500u) << "100 are left of its turn";
  ClaimShared next = shared(5, {{"b", 100, 200}, {"a", 0, 100}});
  next.goes_on = true;
  EXPECT_EQ(order(expect<ClaimReply>(next)), "bbabb");
}

TEST_P(ShareTest, WhatAJobCostsBeyondTheTurnCountsInTheNext) {
  submit_jobs("a", 5, 250);
  submit_jobs("b", 20, 100);
  const auto reply = expect<ClaimReply>(shared(7, {{"a", 0, 100}, {"b", 0, 100}}));
  EXPECT_EQ(order(reply), "abbabbb");
  EXPECT_EQ(reply.shares.at(0).turns, 6) << "it may begin a third job now";
}

TEST_P(ShareTest, ATenantWithoutJobsKeepsNoTurn) {
  submit_jobs("b", 3, 100);
  const auto reply = expect<ClaimReply>(shared(5, {{"a", 0, 100}, {"b", 0, 100}, {"c", 0, 100}}));
  EXPECT_EQ(order(reply), "bbb");
  for (const TakenShare& share : reply.shares) EXPECT_TRUE(share.exhausted);
}

TEST_P(ShareTest, AVeryExpensiveJobCostsNoManyRounds) {
  submit_jobs("a", 2, 1'000'000'000'000);
  submit_jobs("b", 2, 1'000'000'000'000);
  const auto reply = expect<ClaimReply>(shared(4, {{"a", 0, 1}, {"b", 0, 1}}));
  EXPECT_EQ(order(reply), "abab");
}

TEST_P(ShareTest, EachTenantHasItsLimitOfLeases) {
  submit_jobs("a", 5, 10);
  submit_jobs("b", 5, 10);
  const auto reply = expect<ClaimReply>(shared(10, {{"a", 0, 10, 2}, {"b", 0, 10}}));
  EXPECT_EQ(order(reply), "ababbbb");
  EXPECT_TRUE(reply.shares.at(0).at_limit);
  EXPECT_FALSE(reply.shares.at(1).at_limit);
}

TEST_P(ShareTest, TheBodiesOfAllTenantsShareTheRoom) {
  submit_jobs("a", 3, 10);  // a body has 10 bytes
  submit_jobs("b", 3, 10);
  ClaimShared op = shared(10, {{"a", 0, 10}, {"b", 0, 10}});
  op.max_bytes = 31;
  const auto reply = expect<ClaimReply>(op);
  EXPECT_EQ(order(reply), "aba");
  EXPECT_FALSE(reply.shares.at(0).exhausted);
  EXPECT_FALSE(reply.shares.at(1).exhausted);
  EXPECT_EQ(order(expect<ClaimReply>(shared(10, op.shares))), "abb") << "the rest comes later";
}

}  // namespace
}  // namespace millrace::broker::test
