// Every ledger must hand out nothing that is paused, and all of it after the resumption, as tested
// here.
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class PauseTest : public LedgerTest {
 protected:
  bool pause(const std::string& batch, const std::string& model = "") {
    return expect<PauseReply>(Pause{tenant, batch, model}).changed;
  }
  PauseReply resume(const std::string& batch, const std::string& model = "",
                    std::uint32_t max_jobs = 1000) {
    return expect<PauseReply>(Resume{tenant, batch, model, max_jobs});
  }
  std::string taken(std::uint32_t n, bool suspect = false) {
    std::string out;
    for (const ClaimedJob& job : take(n, suspect)) out += (out.empty() ? "" : " ") + job.job;
    return out;
  }
  BatchState show(const std::string& batch) {
    return expect<ListBatchesReply>(ListBatches{tenant, {batch, ""}}).answer.batches.at(0);
  }
  std::uint64_t ready() { return expect<ListTenantsReply>(ListTenants{}).tenants.at(0).ready; }
  JobInfo info(const std::string& id) {
    ListJobs one{tenant, {}};
    one.wanted.job = id;
    return expect<ListJobsReply>(one).answer.jobs.at(0);
  }
};

INSTANTIATE_TEST_SUITE_P(Ledgers, PauseTest, every_kind(), kind_name);

TEST_P(PauseTest, APausedBatchDelaysNoOtherAndComesBackInItsPlaces) {
  for (const char* id : {"a1", "a2", "a3"}) submit(job(id, "a"));
  for (const char* id : {"b1", "b2"}) submit(job(id, "b"));
  EXPECT_TRUE(pause("a"));
  EXPECT_FALSE(pause("a")) << "it was paused before";
  EXPECT_EQ(taken(1), "b1");
  EXPECT_TRUE(show("a").paused);
  EXPECT_FALSE(show("b").paused);
  EXPECT_EQ(count("a").counts.queued, 3u);
  submit(job("a4", "a"));
  EXPECT_EQ(taken(5), "b2");
  submit(job("b3", "b"));
  EXPECT_TRUE(resume("a").changed);
  EXPECT_FALSE(resume("a").changed);
  EXPECT_FALSE(show("a").paused);
  EXPECT_EQ(taken(9), "a1 a2 a3 a4 b3") << "in order of submission, also those set aside";
}

TEST_P(PauseTest, APausedModelClosesItsQueueOnly) {
  SubmitJob any = job("any");
  any.model = "*";
  SubmitJob other = job("other");
  other.model = "other";
  for (const SubmitJob& op : {job("own"), any, other}) submit(op);
  EXPECT_TRUE(pause("", "model"));
  EXPECT_EQ(count().paused_models, std::vector<std::string>{"model"});
  EXPECT_EQ(info("own").paused, true);
  EXPECT_EQ(info("any").paused, false);
  EXPECT_EQ(taken(9), "any");
  pause("", "*");
  any.id = "any2";
  any.hash = "another";
  submit(any);
  EXPECT_EQ(taken(9), "");
  resume("", "*");
  EXPECT_EQ(taken(9), "any2");
  resume("", "model");
  EXPECT_EQ(taken(9), "own");
  EXPECT_TRUE(count().paused_models.empty());
}

TEST_P(PauseTest, APausedTenantGetsNothingAndOthersGetTheirs) {
  submit(job("mine", "b"));
  SubmitJob theirs = job("theirs");
  theirs.tenant = "other";
  submit(theirs);
  EXPECT_TRUE(pause(""));
  EXPECT_TRUE(count().paused);
  EXPECT_TRUE(show("b").paused) << "all its jobs are";
  EXPECT_EQ(look("mine").paused, PausedBy::tenant);
  ClaimShared shared{claim(9)};
  for (const char* who : {tenant, "other"}) shared.shares.push_back({who, 0, 100, 0});
  const auto reply = expect<ClaimReply>(shared);
  ASSERT_EQ(reply.jobs.size(), 1u);
  EXPECT_EQ(reply.jobs[0].job, "theirs");
  EXPECT_TRUE(reply.shares[0].exhausted);
  EXPECT_TRUE(resume("").changed);
  EXPECT_EQ(taken(9), "mine");
}

TEST_P(PauseTest, ThePausesDoNotKnowOfEachOther) {
  submit(job("a", "b"));
  pause("b");
  pause("", "model");
  pause("");
  EXPECT_EQ(look("a").paused, PausedBy::tenant);
  resume("");
  EXPECT_EQ(look("a").paused, PausedBy::model);
  EXPECT_EQ(taken(9), "");
  resume("", "model");
  EXPECT_EQ(look("a").paused, PausedBy::batch);
  EXPECT_EQ(taken(9), "");
  resume("b");
  EXPECT_EQ(look("a").paused, PausedBy::nothing);
  EXPECT_EQ(taken(9), "a");
  EXPECT_EQ(look("a").paused, PausedBy::nothing) << "what runs is not paused";
}

TEST_P(PauseTest, OnlyWhatAClaimCouldHandOutIsReady) {
  SubmitJob other = job("other", "a"), late = job("late", "a");
  other.model = "other";
  late.not_before_us = start_us + 100;
  EXPECT_TRUE(submit(job("a1", "a")).ready);
  EXPECT_FALSE(submit(job("a1", "a")).ready) << "it is known";
  EXPECT_FALSE(submit(late).ready);
  for (const SubmitJob& op : {job("a2", "a"), job("none"), other}) submit(op);
  EXPECT_EQ(ready(), 4u);
  EXPECT_EQ(expect<PauseReply>(Pause{tenant, "a", ""}).ready, 1u) << "though no claim met them";
  EXPECT_FALSE(submit(job("a3", "a")).ready);
  EXPECT_EQ(ready(), 1u);
  EXPECT_EQ(taken(9), "none");
  EXPECT_EQ(ready(), 0u);
  ledger.now_us += 200;
  EXPECT_EQ(expect<StartReply>(StartJobs{tenant}).started, 1u);
  EXPECT_EQ(ready(), 0u) << "its batch is paused";
  EXPECT_EQ(expect<PauseReply>(Resume{tenant, "a", ""}).ready, 5u);
  pause("", "other");
  EXPECT_EQ(ready(), 4u);
  EXPECT_FALSE(submit([&] {
                 SubmitJob more = job("more");
                 more.model = "other";
                 return more;
               }())
                   .ready);
  pause("");
  EXPECT_EQ(ready(), 0u);
  resume("");
  resume("", "other");
  EXPECT_EQ(ready(), 6u);
  give_back({take(1).at(0).lease}, Blame::died);
  EXPECT_EQ(ready(), 5u) << "suspects run apart from the others";
  expect<CancelReply>(CancelJobs{tenant, {"a2"}, ""});
  EXPECT_EQ(ready(), 4u);
  EXPECT_EQ(expect<ClaimReply>(claim(1)).ready, 3u);
}

TEST_P(PauseTest, BatchesOfOthersAndUnknownOnesAreRefusedAlike) {
  submit(job("a", "b"));
  refuse(Pause{tenant, "none", ""}, Code::not_found, "none");
  refuse(Resume{tenant, "none", ""}, Code::not_found, "none");
  refuse(Pause{"other", "b", ""}, Code::not_found, "b");
  EXPECT_FALSE(show("b").paused);
}

TEST_P(PauseTest, LeasesEndAndReturnedJobsStay) {
  for (const char* id : {"a", "b"}) submit(job(id, "batch"));
  const auto held = take(2);
  pause("batch");
  EXPECT_TRUE(expect<RenewReply>(Renew{"engine", {held[0].lease}, start_us + 9}).lost.empty());
  EXPECT_EQ(finish(held[0].lease).state, JobState::completed);
  give_back({held[1].lease});
  EXPECT_EQ(taken(9), "");
  EXPECT_TRUE(info("b").paused);
  EXPECT_FALSE(info("b").not_before_us) << "it waits for no time";
  resume("batch");
  EXPECT_EQ(taken(9), "b");
}

TEST_P(PauseTest, DeadlinesAndCancelsReachPausedJobs) {
  SubmitJob late = job("late", "b");
  late.deadline_us = start_us + 100;
  submit(late);
  submit(job("cancelled", "b"));
  submit(job("stays", "b"));
  pause("b");
  EXPECT_EQ(taken(9), "");
  ledger.now_us += 200;
  const auto expired = expect<ExpireReply>(ExpireJobs{tenant}).ended;
  ASSERT_EQ(expired.size(), 1u);
  EXPECT_EQ(expired[0].job, "late");
  EXPECT_EQ(expect<CancelReply>(CancelJobs{tenant, {"cancelled"}, ""}).cancelled, 1u);
  resume("b");
  EXPECT_EQ(taken(9), "stays");
}

TEST_P(PauseTest, SuspectsOfWhatIsPausedWait) {
  for (const char* id : {"a", "b"}) submit(job(id, "batch"));
  give_back({take(1).at(0).lease}, Blame::died);
  EXPECT_EQ(suspects(), 1u);
  pause("", "model");
  EXPECT_TRUE(expect<ListTenantsReply>(ListTenants{}).tenants.at(0).suspects.empty())
      << "no engine is to be kept free for it";
  EXPECT_EQ(taken(9, true), "");
  resume("", "model");
  submit(job("c", "other"));
  const auto held = take(2);
  ASSERT_EQ(held.size(), 2u);
  give_back({held[0].lease}, Blame::none);
  ledger.now_us += 5;
  give_back({held[1].lease}, Blame::died);
  auto waiting = expect<ListTenantsReply>(ListTenants{}).tenants.at(0).suspects;
  ASSERT_EQ(waiting.size(), 1u) << "those of both batches together";
  EXPECT_EQ(waiting[0].jobs, 2u);
  EXPECT_EQ(waiting[0].oldest_us, start_us);
  pause("batch");
  waiting = expect<ListTenantsReply>(ListTenants{}).tenants.at(0).suspects;
  ASSERT_EQ(waiting.size(), 1u);
  EXPECT_EQ(waiting[0].jobs, 1u) << "of the other batch";
  EXPECT_EQ(waiting[0].oldest_us, start_us + 5);
  EXPECT_EQ(suspects(), 2u) << "both are suspects still";
  EXPECT_EQ(expect<CancelReply>(CancelJobs{tenant, {"c"}, ""}).cancelled, 1u);
  const auto reply = expect<ClaimReply>(claim(9, true));
  EXPECT_TRUE(reply.jobs.empty());
  EXPECT_TRUE(reply.more) << "others may be behind it";
  EXPECT_EQ(suspects(), 0u);
  EXPECT_TRUE(look("a").suspect);
  resume("batch");
  EXPECT_EQ(taken(9, true), "a");
}

// What the steps of a resumption leave, StartJobs does, in a later process as well.
TEST_P(PauseTest, AResumptionGoesOnStepByStep) {
  for (std::uint64_t n = 0; n < 10; ++n) submit(job(numbered("j", n), "b"));
  pause("b");
  EXPECT_EQ(taken(3), "");
  EXPECT_TRUE(resume("b", "", 4).more);
  EXPECT_EQ(taken(99), "j0 j1 j2 j3");
  StartReply started = expect<StartReply>(StartJobs{tenant, 4});
  EXPECT_EQ(started.started, 4u);
  EXPECT_TRUE(started.more);
  pause("b");
  EXPECT_EQ(expect<StartReply>(StartJobs{tenant, 4}).started, 0u);
  EXPECT_EQ(taken(99), "");
  EXPECT_FALSE(resume("b").more);
  EXPECT_EQ(taken(99), "j4 j5 j6 j7 j8 j9");
}

TEST_P(PauseTest, AClaimSetsSoManyAsideAndSaysThatThereIsMore) {
  const auto many = static_cast<std::uint64_t>(claim_set_aside) + 100;
  std::vector<Operation> submits;
  for (std::uint64_t n = 0; n < many; ++n) submits.push_back(job(numbered("j", n), "b"));
  submits.push_back(job("behind"));
  ledger.apply(submits);
  pause("b");
  const auto first = expect<ClaimReply>(claim(1));
  EXPECT_TRUE(first.jobs.empty());
  EXPECT_TRUE(first.more);
  EXPECT_EQ(taken(1), "behind");
}

TEST_P(PauseTest, AClaimTakesNoMoreThanItAskedForBehindAPausedBatch) {
  for (std::uint64_t n = 0; n < 3; ++n) submit(job(numbered("p", n), "b"));
  for (std::uint64_t n = 0; n < 9; ++n) submit(job(numbered("j", n)));
  pause("b");
  EXPECT_EQ(taken(2), "j0 j1");
}

TEST_P(PauseTest, JobsThatWaitForATimeGoOnWaiting) {
  SubmitJob later = job("later", "b");
  later.not_before_us = start_us + 1'000;
  submit(later);
  pause("b");
  ledger.now_us += 2'000;
  EXPECT_EQ(expect<StartReply>(StartJobs{tenant}).started, 1u);
  EXPECT_EQ(taken(9), "");
  resume("b");
  EXPECT_EQ(taken(9), "later");
}

TEST_P(PauseTest, APauseEndsWithTheLastJobOfItsBatch) {
  submit(job("a", "b"));
  pause("b");
  expect<CancelReply>(CancelJobs{tenant, {"a"}, ""});
  Retain forget;
  forget.policy.job_age_us = 100;
  ledger.now_us += 1'000;
  expect<RetainReply>(forget);
  submit(job("a", "b"));
  EXPECT_FALSE(show("b").paused);
  EXPECT_EQ(taken(9), "a");
}

}  // namespace
}  // namespace millrace::broker::test
