// Every ledger must hand out the last jobs of a batch and of a tenant by their cost, within the
// bounds of tails.hpp, as tested here.
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class TailTest : public LedgerTest {
 protected:
  static SubmitJob costly(const std::string& id, std::uint64_t tokens,
                          const std::string& batch = "") {
    SubmitJob op = job(id, batch);
    op.cost_tokens = tokens;
    return op;
  }
  void close(const std::string& batch) {
    expect<UpdateBatchReply>(UpdateBatch{tenant, {batch, true, {}}});
  }
  std::string taken(std::uint32_t n, std::uint32_t tail_jobs) {
    Claim op = claim(n);
    op.tail_jobs = tail_jobs;
    return listed(expect<ClaimReply>(op).jobs);
  }
  static std::string listed(const std::vector<ClaimedJob>& jobs) {
    std::string out;
    for (const ClaimedJob& one : jobs) out += (out.empty() ? "" : " ") + one.job;
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Ledgers, TailTest, every_kind(), kind_name);

TEST_P(TailTest, TheLastJobsOfATenantGoByTheirCost) {
  for (const auto& [id, cost] : {std::pair("a", 5), {"b", 9}, {"c", 9}, {"d", 1}, {"e", 7}}) {
    submit(costly(id, static_cast<std::uint64_t>(cost)));
  }
  EXPECT_EQ(taken(1, 4), "a") << "five are more than four";
  EXPECT_EQ(taken(1, 4), "b");
  EXPECT_EQ(taken(1, 0), "c");
  EXPECT_EQ(taken(9, 4), "e d");
}

TEST_P(TailTest, OneClaimTakesAsManyLongestJobsAsItMay) {
  for (std::uint64_t n = 0; n < 9; ++n) submit(costly(numbered("j", n), 1ULL << n));
  EXPECT_EQ(taken(3, 20), "j8 j7 j6");
  EXPECT_EQ(taken(99, 20), "j5 j4 j3 j2 j1 j0");
}

TEST_P(TailTest, JobsOfAboutTheSameCostStayInOrder) {
  for (const auto& [id, cost] : {std::pair("a", 5), {"b", 9}, {"c", 6}, {"d", 18}}) {
    submit(costly(id, static_cast<std::uint64_t>(cost)));
  }
  EXPECT_EQ(taken(9, 9), "d b c a");
}

TEST_P(TailTest, PrioritiesComeFirst) {
  for (const auto& [id, cost, priority] :
       {std::tuple("soon", 1, 1), {"late", 9, 3}, {"a", 3, 2}, {"b", 7, 2}}) {
    SubmitJob op = costly(id, static_cast<std::uint64_t>(cost));
    op.priority = static_cast<std::uint32_t>(priority);
    submit(op);
  }
  EXPECT_EQ(taken(9, 9), "soon b a late");
}

TEST_P(TailTest, AClosedBatchOrdersItsOwnJobs) {
  submit(costly("b1", 1, "batch"));
  submit(costly("x1", 5));
  submit(costly("b2", 2, "batch"));
  submit(costly("x2", 9));
  submit(costly("b3", 4, "batch"));
  EXPECT_EQ(taken(1, 4), "b1") << "open, and the tenant has more";
  close("batch");
  EXPECT_EQ(taken(2, 3), "x1 b3") << "at the place of b2";
  EXPECT_EQ(taken(9, 1), "b2 x2");
}

TEST_P(TailTest, ABatchThatIsLargerThanTheTailStaysInOrder) {
  for (std::uint64_t n = 0; n < 6; ++n) submit(costly(numbered("j", n), 1ULL << n, "b"));
  for (std::uint64_t n = 0; n < 6; ++n) submit(costly(numbered("x", n), 1));
  close("b");
  EXPECT_EQ(taken(3, 3), "j0 j1 j2");
  EXPECT_EQ(taken(3, 3), "j5 j4 j3");
}

// Long jobs that keep coming let the first one wait for less than W others.
TEST_P(TailTest, NobodyStarvesWhereATenantGoesOnSubmitting) {
  constexpr std::uint32_t tail = 5;
  submit(costly("short", 1));
  std::uint64_t before = 0;
  for (std::uint64_t n = 0; n < 50; ++n) {
    submit(costly(numbered("long", n), 100 + n));
    if (taken(1, tail) == "short") break;
    ++before;
  }
  EXPECT_EQ(before, tail - 1);
}

TEST_P(TailTest, OnlyWhatTheClaimMayHaveTakesPart) {
  SubmitJob other = costly("other", 50);
  other.model = "other";
  SubmitJob kv = costly("kv", 50);
  kv.kv = "r5/r3";
  SubmitJob late = costly("late", 50);
  late.deadline_us = start_us + 1;
  SubmitJob waits = costly("waits", 50);
  waits.not_before_us = start_us + 1'000'000;
  for (const SubmitJob& op :
       {costly("a", 1), other, kv, late, waits, costly("p", 50, "paused"), costly("b", 2)}) {
    submit(op);
  }
  expect<PauseReply>(Pause{tenant, "paused", ""});
  ledger.now_us += 5;
  EXPECT_EQ(taken(9, 20), "b a");
  Claim runs = claim(9);
  runs.kv = {"r5/r3"};
  runs.tail_jobs = 20;
  EXPECT_EQ(listed(expect<ClaimReply>(runs).jobs), "kv");
}

// However many jobs wait beside it.
TEST_P(TailTest, WhatNoClaimCouldHandOutHidesNoTailOfATenant) {
  for (std::uint64_t n = 0; n < 9; ++n) {
    SubmitJob waits = costly(numbered("w", n), 50), other = costly(numbered("o", n), 50);
    waits.not_before_us = start_us + 1'000'000;
    other.model = "other";
    submit(waits);
    submit(other);
  }
  for (const char* id : {"s1", "s2", "s3"}) submit(costly(id, 50));
  std::vector<LeaseId> leases;
  for (const ClaimedJob& one : take(3)) leases.push_back(one.lease);
  give_back(leases, Blame::died);
  for (const auto& [id, cost] : {std::pair("a", 1), {"b", 2}}) {
    submit(costly(id, static_cast<std::uint64_t>(cost)));
  }
  for (std::uint64_t n = 0; n < 9; ++n) submit(costly(numbered("p", n), 50, "paused"));
  expect<PauseReply>(Pause{tenant, "paused", ""});
  EXPECT_EQ(taken(2, 2), "b a");
}

TEST_P(TailTest, WhatNoClaimCouldHandOutHidesNoTailOfABatch) {
  for (const auto& [id, cost] : {std::pair("w1", 50), {"w2", 50}}) {
    SubmitJob waits = costly(id, static_cast<std::uint64_t>(cost), "b");
    waits.not_before_us = start_us + 10;
    submit(waits);
  }
  for (const auto& [id, cost] : {std::pair("a", 1), {"c", 2}, {"d", 4}}) {
    submit(costly(id, static_cast<std::uint64_t>(cost), "b"));
  }
  for (std::uint64_t n = 0; n < 9; ++n) submit(costly(numbered("x", n), 1));
  close("b");
  EXPECT_EQ(taken(1, 3), "d") << "three are ready";
  ledger.now_us += 20;
  expect<StartReply>(StartJobs{tenant});
  EXPECT_EQ(taken(1, 3), "w1") << "four are, and the first is the longest";
  EXPECT_EQ(taken(3, 3), "w2 c a");
}

// Jobs of a closed batch that start later, one after the other, pass it no more often.
TEST_P(TailTest, NobodyStarvesWhereJobsOfABatchWaitForTheirTime) {
  constexpr std::uint32_t tail = 5;
  submit(costly("short", 1, "b"));
  for (std::uint64_t n = 0; n < 12; ++n) {
    SubmitJob waits = costly(numbered("w", n), 100, "b");
    waits.not_before_us = start_us + 10 * static_cast<std::int64_t>(n + 1);
    submit(waits);
  }
  for (std::uint64_t n = 0; n < 9; ++n) submit(costly(numbered("x", n), 1));
  close("b");
  std::uint64_t before = 0;
  for (; before < 12; ++before) {
    ledger.now_us += 10;
    expect<StartReply>(StartJobs{tenant});
    if (taken(1, tail) == "short") break;
  }
  EXPECT_EQ(before, tail - 1);
}

TEST_P(TailTest, SharesAreCountedInWhatGoesOut) {
  for (const char* who : {tenant, "other"}) {
    for (std::uint64_t n = 0; n < 3; ++n) {
      SubmitJob op = costly(numbered(who[0] == 'o' ? "o" : "d", n), 10 * (n + 1));
      op.tenant = who;
      submit(op);
    }
  }
  ClaimShared shared{claim(9)};
  shared.tail_jobs = 20;
  for (const char* who : {tenant, "other"}) shared.shares.push_back({who, 0, 30, 0});
  const auto reply = expect<ClaimReply>(shared);
  EXPECT_EQ(listed(reply.jobs), "d2 o2 d1 d0 o1 o0");
  EXPECT_EQ(reply.shares[0].tokens, 60u);
}

TEST_P(TailTest, TheBytesOfAClaimCountInWhatGoesOut) {
  SubmitJob large = costly("large", 9);
  large.body = Body(limits::MiB, 'x');
  for (const SubmitJob& op : {costly("a", 1), large, costly("b", 2)}) submit(op);
  Claim op = claim(9);
  op.tail_jobs = 9;
  op.max_bytes = 100;
  EXPECT_EQ(listed(expect<ClaimReply>(op).jobs), "large") << "the first may exceed the bytes";
  EXPECT_EQ(listed(expect<ClaimReply>(op).jobs), "b a");
}

}  // namespace
}  // namespace millrace::broker::test
