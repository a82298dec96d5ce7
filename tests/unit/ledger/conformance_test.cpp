// Every ledger must handle submits, claims and leases as tested here.
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

using Strings = std::vector<std::string>;

INSTANTIATE_TEST_SUITE_P(Ledgers, LedgerTest, every_kind(), kind_name);

TEST_P(LedgerTest, SubmittingTwiceStoresOnceAndAnswersTheStoredState) {
  EXPECT_FALSE(submit(job("a")).known);
  const SubmitReply again = submit(job("a"));
  EXPECT_TRUE(again.known);
  EXPECT_EQ(again.state, JobState::queued);
  finish(take(5).at(0).lease);
  EXPECT_EQ(submit(job("a")).state, JobState::completed);
  EXPECT_EQ(count().counts, (JobCounts{0, 0, 1, 0, 0, 0}));
}

TEST_P(LedgerTest, AnotherBodyUnderAKnownIdIsAConflict) {
  submit(job("a"));
  SubmitJob other = job("a");
  other.hash = "another";
  refuse(other, Code::conflict, "'a'");
  EXPECT_EQ(take(5).at(0).body, "body of a");
}

// Earlier brokers stored the hash of the body as it was given.
TEST_P(LedgerTest, AJobOfTheFirstHashVersionIsComparedByItsBody) {
  SubmitJob before = job("a");
  before.hash_version = 1;
  before.hash = "hash of the body";
  submit(before);
  SubmitJob now = job("a");
  now.body_hash = "hash of the body";
  EXPECT_TRUE(submit(now).known);
  now.body_hash = "hash of another body";
  refuse(now, Code::conflict, "'a'");
}

TEST_P(LedgerTest, ARefusedOperationLeavesItsNeighboursAlone) {
  submit(job("a"));
  SubmitJob other = job("a");
  other.hash = "another";
  const auto replies = ledger.apply({job("b"), other, Finish{99, JobState::completed, "x", ""},
                                     GetJob{tenant, "zz"}, job("c"), Count{tenant, ""}});
  ASSERT_EQ(replies.size(), 6u);
  EXPECT_TRUE(replies[0]);
  EXPECT_EQ(replies[1].error().code, Code::conflict);
  EXPECT_EQ(replies[2].error().code, Code::stale);
  EXPECT_EQ(replies[3].error().code, Code::not_found);
  EXPECT_TRUE(replies[4]);
  EXPECT_EQ(std::get<CountReply>(*replies[5]).counts.queued, 3u);
}

TEST_P(LedgerTest, AClaimGetsJobsOfItsKvPoliciesAndWithoutOneInOrder) {
  const auto wants = [](const std::string& id, const std::string& kv, const std::string& model) {
    SubmitJob op = job(id);
    op.kv = kv;
    op.model = model;
    return op;
  };
  for (const auto& [id, kv, model] :
       std::vector<std::array<std::string, 3>>{{"1", "r5/r3", "model"},
                                               {"2", "", "model"},
                                               {"3", "f16/f16", "*"},
                                               {"4", "r4/r3", "model"},
                                               {"5", "r5/r3", "*"},
                                               {"6", "r5/r3", "other"},
                                               {"7", "", "*"}}) {
    submit(wants(id, kv, model));
  }
  Claim op = claim(10);
  op.kv = {"f16/f16"};
  const auto first = expect<ClaimReply>(op).jobs;
  EXPECT_EQ(ids(first), (Strings{"2", "3", "7"}));
  op.kv.clear();
  EXPECT_EQ(expect<ClaimReply>(op).jobs.size(), 0u);
  op.kv = {"r4/r3", "r5/r3"};
  const auto second = expect<ClaimReply>(op).jobs;
  EXPECT_EQ(ids(second), (Strings{"1", "4", "5"}));
  EXPECT_EQ(look("6").kv, "r5/r3");
  EXPECT_EQ(look("6").model, "other");
  // A job that is given back, suspected or retried wants the same policy.
  give_back({second[0].lease}, Blame::died);
  op.from = ClaimFrom::suspects;
  op.kv = {"f16/f16"};
  EXPECT_EQ(expect<ClaimReply>(op).jobs.size(), 0u);
  op.kv = {"r5/r3"};
  const auto alone = expect<ClaimReply>(op).jobs;
  EXPECT_EQ(ids(alone), Strings{"1"});
  finish(alone[0].lease, JobState::failed);
  expect<RetryReply>(RetryJobs{tenant, {"1"}, "", 5});
  EXPECT_EQ(take(10).size(), 0u);
  op.from = ClaimFrom::jobs;
  EXPECT_EQ(ids(expect<ClaimReply>(op).jobs), Strings{"1"});
}

TEST_P(LedgerTest, TenantsDoNotSeeEachOther) {
  submit(job("a"));
  SubmitJob other = job("a");
  other.tenant = "other";
  other.hash = "another";
  EXPECT_FALSE(submit(other).known);
  Claim op = claim(5);
  op.tenant = "other";
  EXPECT_EQ(expect<ClaimReply>(op).jobs.size(), 1u);
  EXPECT_EQ(count().counts.queued, 1u);
  EXPECT_EQ(expect<CountReply>(Count{"other", ""}).counts.leased, 1u);
}

TEST_P(LedgerTest, AFailedJobTellsItsReason) {
  submit(job("a"));
  const auto lease = take(1).at(0).lease;
  Finish end{lease, JobState::failed, {}, "", Error{Code::context_exceeded, "too long", {}}};
  EXPECT_EQ(expect<FinishReply>(end).reason, Code::context_exceeded);
}

TEST_P(LedgerTest, ListsTenantsWithTheirQueues) {
  EXPECT_TRUE(expect<ListTenantsReply>(ListTenants{}).tenants.empty());
  submit(job("a"));
  for (const std::string id : {"b", "c"}) {
    SubmitJob other = job(id);
    other.tenant = "other";
    submit(other);
  }
  expect<FinishReply>(Append{"stream only", "log", "x", "body"});
  Claim op = claim(1);
  op.tenant = "other";
  const LeaseId lease = expect<ClaimReply>(op).jobs.at(0).lease;
  expect<GiveBackReply>(GiveBack{{lease}, Blame::died, ""});
  const auto tenants = expect<ListTenantsReply>(ListTenants{}).tenants;
  ASSERT_EQ(tenants.size(), 3u);
  std::map<std::string, std::uint64_t> ready;
  for (const TenantInfo& one : tenants) ready[one.tenant] = one.ready;
  EXPECT_EQ(ready,
            (std::map<std::string, std::uint64_t>{{tenant, 1}, {"other", 1}, {"stream only", 0}}));
  for (const TenantInfo& one : tenants) {
    EXPECT_EQ(one.suspects.size(), one.tenant == "other" ? 1u : 0u) << one.tenant;
  }
}

TEST_P(LedgerTest, ClaimsFollowPriorityThenSubmission) {
  for (const auto& [id, priority] : std::vector<std::pair<std::string, std::uint32_t>>{
           {"c1", 2}, {"d1", 4}, {"a1", 0}, {"c2", 2}, {"a2", 0}}) {
    SubmitJob op = job(id);
    op.priority = priority;
    submit(op);
  }
  EXPECT_EQ(ids(take(3)), (Strings{"a1", "a2", "c1"}));
  EXPECT_EQ(ids(take(9)), (Strings{"c2", "d1"}));
  EXPECT_TRUE(take(9).empty());
}

TEST_P(LedgerTest, AClaimIsLimitedInBytesAndGivesAtLeastOneJob) {
  for (const char* id : {"a", "b", "d", "e"}) {
    SubmitJob op = job(id);
    op.body = std::string(id == std::string("b") ? 900 : 100, 'x');
    submit(op);
  }
  Claim small = claim(9);
  small.max_bytes = 250;
  EXPECT_EQ(ids(expect<ClaimReply>(small).jobs), (Strings{"a"}));
  EXPECT_EQ(ids(expect<ClaimReply>(small).jobs), (Strings{"b"}));
  EXPECT_EQ(ids(expect<ClaimReply>(small).jobs), (Strings{"d", "e"}));
  EXPECT_EQ(look("e").attempts, 1u) << "a job that did not fit was not handed out before";
}

TEST_P(LedgerTest, ClaimsServeOneModelAndAny) {
  for (const auto& [id, model] : std::vector<std::pair<std::string, std::string>>{
           {"1", "other"}, {"2", "*"}, {"3", "model"}, {"4", "*"}, {"5", "other"}}) {
    SubmitJob op = job(id);
    op.model = model;
    submit(op);
  }
  EXPECT_EQ(ids(take(2)), (Strings{"2", "3"}));
  EXPECT_EQ(ids(take(9)), (Strings{"4"}));
  Claim op = claim(9);
  op.model = "other";
  EXPECT_EQ(ids(expect<ClaimReply>(op).jobs), (Strings{"1", "5"}));
}

TEST_P(LedgerTest, AClaimSaysWhatTheEngineNeeds) {
  SubmitJob op = job("a");
  op.deadline_us = start_us + 5'000'000;
  submit(op);
  ledger.now_us += 7;
  const ClaimedJob claimed = take(1).at(0);
  EXPECT_EQ(claimed.tenant, tenant);
  EXPECT_EQ(claimed.attempt, 1u);
  EXPECT_EQ(claimed.submitted_us, start_us);
  EXPECT_EQ(claimed.deadline_us, start_us + 5'000'000);
  EXPECT_FALSE(claimed.suspect);
  EXPECT_EQ(claimed.body, "body of a");
  const GetJobReply seen = look("a");
  EXPECT_EQ(seen.state, JobState::leased);
  EXPECT_EQ(seen.lease, claimed.lease);
  EXPECT_EQ(seen.engine, "engine");
  EXPECT_EQ(seen.custom_id, "label of a");
}

TEST_P(LedgerTest, LeasesAreNeverUsedTwice) {
  submit(job("a"));
  LeaseId last = 0;
  for (std::uint32_t i = 1; i <= 5; ++i) {
    const ClaimedJob claimed = take(1).at(0);
    EXPECT_GT(claimed.lease, last);
    EXPECT_EQ(claimed.attempt, i);
    last = claimed.lease;
    give_back({last});
  }
  EXPECT_EQ(look("a").attempts, 5u);
  EXPECT_EQ(look("a").failures, 0u);
}

TEST_P(LedgerTest, OnlyTheCurrentLeaseMayEndAJob) {
  submit(job("a"));
  const LeaseId old = take(1).at(0).lease;
  give_back({old});
  refuse(Finish{old, JobState::completed, "x", ""}, Code::stale, std::to_string(old));
  const LeaseId current = take(1).at(0).lease;
  refuse(Finish{old, JobState::completed, "x", ""}, Code::stale);
  refuse(Finish{current, JobState::completed, "x", "another"}, Code::stale);
  refuse(Finish{current, JobState::queued, "x", "engine"}, Code::invalid_value);
  EXPECT_EQ(count().counts.leased, 1u);
  EXPECT_EQ(read().high, 0u);
  EXPECT_EQ(expect<FinishReply>(Finish{current, JobState::completed, "x", "engine"}).number, 1u);
  refuse(Finish{current, JobState::completed, "x", "engine"}, Code::stale);
  EXPECT_EQ(read().entries.size(), 1u);
}

TEST_P(LedgerTest, RenewalsMoveTheEndAndTellWhatIsLost) {
  for (const char* id : {"a", "b", "c"}) submit(job(id));
  const auto held = take(2);
  const auto others = take(1, false, "another");
  expect<CancelReply>(CancelJobs{tenant, {"b"}, ""});
  const auto reply = expect<RenewReply>(Renew{
      "engine", {held[0].lease, held[1].lease, others[0].lease, 77}, start_us + 2'000'000'000});
  EXPECT_EQ(reply.lost, (std::vector<LeaseId>{others[0].lease, 77}));
  EXPECT_EQ(reply.cancelled, (std::vector<LeaseId>{held[1].lease}));
  const auto lapsed = expect<FindLapsedReply>(FindLapsed{start_us + 1'500'000'000, {}});
  ASSERT_EQ(lapsed.leases.size(), 1u);
  EXPECT_EQ(lapsed.leases[0].lease, others[0].lease);
  EXPECT_EQ(lapsed.leases[0].engine, "another");
  EXPECT_EQ(lapsed.leases[0].job, "c");
}

TEST_P(LedgerTest, LapsedLeasesAreFoundByTimeByEngineOrAll) {
  for (const char* id : {"a", "b", "c"}) submit(job(id));
  take(1, false, "one");
  take(1, false, "two");
  const auto find = [&](FindLapsed op) { return expect<FindLapsedReply>(op).leases.size(); };
  EXPECT_EQ(find({start_us, {}}), 0u);
  EXPECT_EQ(find({start_us, {"two", "three"}}), 1u);
  EXPECT_EQ(find({start_us, {}, true}), 2u);
  EXPECT_EQ(find({start_us + 1'000'000'000, {}}), 2u);
}

TEST_P(LedgerTest, AJobThatIsGivenBackReturnsToItsPlace) {
  for (const char* id : {"a", "b", "c"}) submit(job(id));
  const auto held = take(2);
  EXPECT_EQ(give_back({held[1].lease, held[0].lease, 99}).returned, (Strings{"b", "a"}));
  EXPECT_EQ(suspects(), 0u);
  EXPECT_EQ(ids(take(3)), (Strings{"a", "b", "c"}));
}

TEST_P(LedgerTest, OnlyTheHolderGivesBackWhenNamed) {
  submit(job("a"));
  const LeaseId lease = take(1).at(0).lease;
  EXPECT_TRUE(expect<GiveBackReply>(GiveBack{{lease}, Blame::none, "another"}).returned.empty());
  EXPECT_EQ(expect<GiveBackReply>(GiveBack{{lease}, Blame::none, "engine"}).returned.size(), 1u);
}

TEST_P(LedgerTest, AFullQueueRefusesSubmitsUntilThereIsRoom) {
  const auto job = [](const std::string& id) {
    SubmitJob op = test::job(id);
    op.max_queued = 3;
    return op;
  };
  auto replies = ledger.apply({job("a"), job("b"), job("c"), job("d"), job("a")});
  EXPECT_TRUE(replies[2]);
  ASSERT_FALSE(replies[3]);
  EXPECT_EQ(replies[3].error().code, Code::overloaded);
  EXPECT_TRUE(replies[4]) << "a known job does not count as new";
  SubmitJob more = job("f");
  more.max_queued = 4;
  replies = ledger.apply({claim(1), job("d"), job("e"), more});
  EXPECT_TRUE(replies[1]);
  EXPECT_FALSE(replies[2]);
  EXPECT_TRUE(replies[3]) << "each submit brings its own limit";
}

TEST_P(LedgerTest, AClaimEndsWhenTheCostsOfItsJobsReachItsTokens) {
  for (const auto& [id, cost] : std::vector<std::pair<std::string, std::uint64_t>>{
           {"a", 30}, {"b", 30}, {"c", 500}, {"d", 1}}) {
    SubmitJob op = job(id);
    op.cost_tokens = cost;
    submit(op);
  }
  Claim op = claim(10);
  op.max_tokens = 31;
  const auto first = expect<ClaimReply>(op).jobs;
  EXPECT_EQ(ids(first), (Strings{"a", "b"}));
  EXPECT_EQ(first.at(0).cost_tokens, 30u);
  EXPECT_EQ(ids(expect<ClaimReply>(op).jobs), Strings{"c"}) << "the first job may cost more";
  op.max_tokens = any_tokens;
  EXPECT_EQ(ids(expect<ClaimReply>(op).jobs), Strings{"d"});
}

TEST_P(LedgerTest, AClaimLeavesTheTenantNoMoreLeasesThanItMayHold) {
  for (const std::string id : {"a", "b", "c", "d", "e"}) submit(job(id));
  Claim op = claim(2);
  op.max_leased = 3;
  const auto first = expect<ClaimReply>(op);
  EXPECT_EQ(first.jobs.size(), 2u);
  EXPECT_FALSE(first.at_limit);
  op.engine = "another";
  const auto second = expect<ClaimReply>(op);
  EXPECT_EQ(second.jobs.size(), 1u);
  EXPECT_TRUE(second.at_limit);
  EXPECT_TRUE(expect<ClaimReply>(op).jobs.empty());
  // Of two claims and an end in one transaction each sees what came before it.
  const auto replies =
      ledger.apply({op, Finish{first.jobs[0].lease, JobState::completed, "r", ""}, op, op});
  EXPECT_EQ(std::get<ClaimReply>(*replies[0]).jobs.size(), 0u);
  EXPECT_EQ(std::get<ClaimReply>(*replies[2]).jobs.size(), 1u);
  EXPECT_EQ(std::get<ClaimReply>(*replies[3]).jobs.size(), 0u);
  op.tenant = "other";
  SubmitJob theirs = job("a");
  theirs.tenant = "other";
  submit(theirs);
  EXPECT_EQ(expect<ClaimReply>(op).jobs.size(), 1u) << "each tenant has its own limit";
  op = claim(1, true);
  give_back({second.jobs[0].lease}, Blame::died);
  op.max_leased = 2;
  const auto suspects = expect<ClaimReply>(op);
  EXPECT_TRUE(suspects.jobs.empty()) << "suspects count as well";
  EXPECT_TRUE(suspects.at_limit);
}

}  // namespace
}  // namespace millrace::broker::test
