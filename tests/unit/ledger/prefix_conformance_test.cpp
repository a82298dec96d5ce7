// Every ledger must hand jobs whose prompts begin alike to the engine that holds their beginning,
// within the bounds of claim_order.hpp.
#include "broker/ledger/claim_order.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

using Strings = std::vector<std::string>;
using Numbers = std::vector<std::uint64_t>;

// The beginnings 1 to 9 are the digits of the jobs' names; 0 is none.
class PrefixTest : public LedgerTest {
 protected:
  static SubmitJob of(std::uint64_t prefix, const std::string& id, std::uint32_t priority = 2) {
    SubmitJob op = job(id);
    op.prefix = prefix;
    op.priority = priority;
    return op;
  }
  void submit_all(const Strings& names) {
    for (const std::string& id : names) {
      submit(of(static_cast<std::uint64_t>(id.back() - '0'), id));
    }
  }
  static Claim with(std::uint32_t max_jobs, Numbers own, Numbers any = {}) {
    Claim op = claim(max_jobs);
    op.prefixes.own = std::move(own);
    op.prefixes.any = std::make_shared<const Numbers>(std::move(any));
    return op;
  }
  Strings taken(const Claim& op) { return ids(expect<ClaimReply>(op).jobs); }
};

INSTANTIATE_TEST_SUITE_P(Ledgers, PrefixTest, every_kind(), kind_name);

TEST_P(PrefixTest, AnEngineGetsTheJobsWhoseBeginningItHoldsAndThoseWithoutOne) {
  submit_all({"a1", "b2", "c1", "d2", "e0", "f1"});
  EXPECT_EQ(taken(with(3, {1}, {1, 2})), (Strings{"a1", "c1", "e0"}));
  EXPECT_EQ(taken(with(9, {2}, {1, 2})), (Strings{"b2", "d2", "f1"}));
}

TEST_P(PrefixTest, ThenThoseThatNoEngineHoldsOneBeginningAfterTheOther) {
  submit_all({"a1", "b2", "c3", "d2", "e1", "f3", "g0"});
  EXPECT_EQ(taken(with(3, {}, {1})), (Strings{"g0", "b2", "d2"}));
  EXPECT_EQ(taken(with(3, {2}, {1, 2})), (Strings{"c3", "f3", "a1"}))
      << "an engine with nothing better to do gets work";
  EXPECT_EQ(taken(claim(3)), Strings{"e1"});
}

TEST_P(PrefixTest, ClaimsTellTheBeginningsOfTheirJobs) {
  submit_all({"a7", "b0"});
  const auto jobs = take(2);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].job + jobs[1].job, "b0a7");
  EXPECT_EQ(jobs[0].prefix, 0u);
  EXPECT_EQ(jobs[1].prefix, 7u);
}

TEST_P(PrefixTest, AJobIsOvertakenByFewerJobsThanTheLookAhead) {
  std::vector<Operation> jobs{of(1, "first"), of(1, "second")};
  for (std::uint64_t i = 0; i < look_ahead + 40; ++i) jobs.push_back(of(2, numbered("n", i)));
  ledger.apply(jobs);
  const Claim op = with(100, {2}, {1, 2});
  std::uint64_t before = 0;
  for (Strings names = taken(op); !names.empty(); names = taken(op)) {
    const auto first = std::ranges::find(names, "first");
    before += static_cast<std::uint64_t>(first - names.begin());
    if (first == names.end()) continue;
    EXPECT_EQ(*(first + 1), "second") << "the engine holds their beginning now";
    break;
  }
  EXPECT_EQ(before, look_ahead - 2) << "the places between the first job and the bound";
}

TEST_P(PrefixTest, WhatComesLaterOvertakesNoJobBeyondTheBound) {
  submit_all({"waits1"});
  const Claim op = with(64, {2}, {1, 2});
  std::uint64_t overtaken = 0;
  for (std::uint64_t round = 0; round < 2 * look_ahead / 64; ++round) {
    std::vector<Operation> jobs;
    for (std::uint64_t i = 0; i < 64; ++i) jobs.push_back(of(2, numbered("n", 64 * round + i)));
    ledger.apply(jobs);
    const Strings names = taken(op);
    if (std::ranges::find(names, "waits1") != names.end()) break;
    overtaken += names.size();
  }
  EXPECT_GT(overtaken, look_ahead / 2);
  EXPECT_LT(overtaken, look_ahead);
}

TEST_P(PrefixTest, PrioritiesAreNotCrossed) {
  submit(of(1, "low", 3));
  submit(of(2, "high", 1));
  submit(of(1, "middle", 2));
  EXPECT_EQ(taken(with(1, {1}, {1, 2})), Strings{"high"});
  EXPECT_EQ(taken(with(2, {1}, {1, 2})), (Strings{"middle", "low"}));
}

TEST_P(PrefixTest, AJobKeepsItsBeginningWhenItIsQueuedAgain) {
  submit_all({"a1", "b2"});
  const auto jobs = take(2);
  give_back({jobs.at(0).lease, jobs.at(1).lease});
  EXPECT_EQ(taken(with(1, {2}, {1, 2})), Strings{"b2"});
}

TEST_P(PrefixTest, SuspectsAreTakenInTheOrderOfTheirQueue) {
  submit_all({"a1", "b2", "c1", "d2", "e1", "f2", "g1", "h2"});
  std::vector<LeaseId> leases;
  for (const ClaimedJob& one : take(8)) leases.push_back(one.lease);
  give_back(leases, Blame::died);
  Claim op = with(8, {2}, {1, 2});
  op.from = ClaimFrom::suspects;
  EXPECT_EQ(taken(op), (Strings{"a1", "b2", "c1", "d2"}));
}

TEST_P(PrefixTest, AJobPastItsDeadlineHoldsNoPlace) {
  SubmitJob late = of(1, "late");
  late.deadline_us = start_us;
  submit(late);
  submit_all({"a1", "b2"});
  EXPECT_EQ(taken(with(9, {2}, {1, 2})), (Strings{"b2", "a1"}));
}

TEST_P(PrefixTest, TurnsOfTenantsKeepTheirSizeAndGoOnWithABeginning) {
  for (const std::string whose : {"a", "b"}) {
    for (const std::string name : {"x1", "y2", "z1", "w2"}) {
      SubmitJob op = of(static_cast<std::uint64_t>(name.back() - '0'), whose + name);
      op.tenant = whose;
      op.cost_tokens = 100;
      submit(op);
    }
  }
  ClaimShared op{claim(5), {{"a", 0, 100}, {"b", 0, 100}}};
  EXPECT_EQ(ids(expect<ClaimReply>(op).jobs), (Strings{"ax1", "bx1", "az1", "bz1", "ay2"}));
}

// A claim of many turns would otherwise read the same places for each of its jobs.
TEST_P(PrefixTest, EachTurnOfAClaimLooksLessFarAhead) {
  std::vector<Operation> jobs;
  const auto add = [&](std::uint64_t prefix, const std::string& id) {
    SubmitJob op = of(prefix, id);
    op.cost_tokens = 100;
    jobs.emplace_back(std::move(op));
  };
  for (std::uint64_t i = 0; i < 300; ++i) add(i < 150 ? 10 + i : 1, numbered("n", i));
  ledger.apply(jobs);
  ClaimShared op{with(4, {1}, {}), {{tenant, 0, 100}}};
  EXPECT_EQ(ids(expect<ClaimReply>(op).jobs),
            (Strings{numbered("n", 150), numbered("n", 151), numbered("n", 152), "n0"}));
}

TEST_P(PrefixTest, AClaimThatFindsNothingAmongManyJobsLooksNoFurther) {
  std::vector<Operation> jobs;
  for (std::uint64_t i = 0; i < looks_in_vain; ++i) jobs.push_back(of(10 + i, numbered("n", i)));
  jobs.push_back(of(1, "alike"));
  ledger.apply(jobs);
  EXPECT_EQ(taken(with(2, {1})), (Strings{"n0", "alike"}))
      << "a job that goes makes room for one more look";
}

TEST_P(PrefixTest, JobsOfAPausedBatchAheadDoNotSeparateThoseThatBeginAlike) {
  SubmitJob paused = job("p", "nightly");
  submit(paused);
  submit_all({"x1", "y2", "z1", "w2", "v1", "u1"});
  expect<PauseReply>(Pause{tenant, "nightly", ""});
  EXPECT_EQ(taken(with(4, {})), (Strings{"x1", "z1", "v1", "u1"}));
}

}  // namespace
}  // namespace millrace::broker::test
