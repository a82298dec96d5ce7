// Every ledger must list and drop jobs, wait for their start and run them again after an engine's
// error as tested here.
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

using Strings = std::vector<std::string>;

constexpr std::int64_t one_s_us = 1'000'000;

class StoredJobTest : public LedgerTest {
 protected:
  JobsAnswer list(JobsRequest wanted, std::uint32_t max_jobs = limits::listed_jobs,
                  std::uint32_t max_scanned = limits::scanned_jobs) {
    ListJobs op{tenant, std::move(wanted)};
    op.max_jobs = max_jobs;
    op.max_scanned = max_scanned;
    return expect<ListJobsReply>(op).answer;
  }
  // All pages together, and how many there were.
  std::pair<Strings, int> pages(JobsRequest wanted, std::uint32_t max_jobs,
                                std::uint32_t max_scanned = limits::scanned_jobs) {
    Strings out;
    int count = 0;
    for (bool more = true; more && count < 100; ++count) {
      const JobsAnswer answer = list(wanted, max_jobs, max_scanned);
      for (const JobInfo& info : answer.jobs) out.push_back(info.job);
      EXPECT_LE(answer.jobs.size(), max_jobs);
      more = answer.more;
      wanted.after = answer.next;
    }
    return {out, count};
  }
  FinishReply fail_with(LeaseId lease, Code code) {
    return expect<FinishReply>(
        Finish{lease, JobState::failed, "", "", Error{code, "what went wrong", "what to do"}});
  }
  StartReply start() { return expect<StartReply>(StartJobs{tenant}); }
};

INSTANTIATE_TEST_SUITE_P(Ledgers, StoredJobTest, every_kind(), kind_name);

// ---- listing

TEST_P(StoredJobTest, AJobIsListedWithItsFacts) {
  SubmitJob op = job("a", "batch");
  op.priority = 1;
  op.max_attempts = 1;
  op.deadline_us = start_us + 90 * one_s_us;
  submit(op);
  submit(job("b"));
  const LeaseId lease = take(1, false, "engine-7").at(0).lease;
  JobInfo info = list({.job = "a"}).jobs.at(0);
  EXPECT_EQ(info.job + info.custom_id + info.model + info.stream + info.batch,
            "alabel of amodelresultsbatch");
  EXPECT_EQ(info.state, JobState::leased);
  EXPECT_EQ(info.engine, "engine-7");
  EXPECT_EQ(info.priority, 1u);
  EXPECT_EQ(info.attempts, 1u);
  EXPECT_EQ(info.submitted_us, start_us);
  EXPECT_EQ(info.deadline_us, start_us + 90 * one_s_us);
  EXPECT_FALSE(info.ended_us || info.error || info.not_before_us);
  ledger.now_us += one_s_us;
  fail_with(lease, Code::context_exceeded);
  info = list({.job = "a"}).jobs.at(0);
  EXPECT_EQ(info.state, JobState::failed);
  EXPECT_EQ(info.number, 1u);
  EXPECT_EQ(info.ended_us, start_us + one_s_us);
  EXPECT_EQ(info.error, (Error{Code::context_exceeded, "what went wrong", "what to do"}));
  EXPECT_TRUE(info.engine.empty());
  refuse(ListJobs{tenant, {.job = "c"}}, Code::not_found, "'c'");
  refuse(ListJobs{"other", {.job = "a"}}, Code::not_found, "'a'");
}

TEST_P(StoredJobTest, JobsAreListedByIdInPagesAndByState) {
  for (const char* id : {"d", "a", "c", "b", "e"}) submit(job(id));
  submit([] {
    SubmitJob op = job("f");
    op.tenant = "other";
    return op;
  }());
  EXPECT_EQ(pages({}, 2), (std::pair(Strings{"a", "b", "c", "d", "e"}, 3)));
  const auto held = take(3);  // in order of submission: d, a, c
  finish(held[0].lease);
  fail_with(held[1].lease, Code::invalid_token);
  EXPECT_EQ(pages({.state = JobState::completed}, 9).first, (Strings{"d"}));
  EXPECT_EQ(pages({.state = JobState::failed}, 9).first, (Strings{"a"}));
  EXPECT_EQ(pages({.state = JobState::leased}, 9).first, (Strings{"c"}));
  EXPECT_EQ(pages({.state = JobState::queued}, 1).first, (Strings{"b", "e"}));
  EXPECT_EQ(pages({.state = JobState::expired}, 1).first, Strings{});
  EXPECT_EQ(list({.state = JobState::failed}).jobs.at(0).error->code, Code::invalid_token);
}

TEST_P(StoredJobTest, AListLooksThroughSoManyJobsAtATime) {
  for (std::uint64_t i = 10; i < 20; ++i) {
    SubmitJob op = job(numbered("j", i));
    if (i == 19) op.stream = "rare";
    submit(op);
  }
  JobsAnswer answer = list({.stream = "rare"}, 9, 4);
  EXPECT_TRUE(answer.jobs.empty());
  EXPECT_TRUE(answer.more) << "four jobs were looked through, the others were not";
  EXPECT_EQ(pages({.stream = "rare"}, 9, 4), (std::pair(Strings{"j19"}, 3)));
}

TEST_P(StoredJobTest, AListHasAtMostSoManyBytes) {
  for (const char* id : {"a", "b", "c"}) submit(job(id));
  for (const auto& held : take(3)) fail_with(held.lease, Code::invalid_token);
  ListJobs op{tenant, {.state = JobState::failed}};
  op.max_bytes = 1;
  JobsAnswer answer = expect<ListJobsReply>(op).answer;
  ASSERT_EQ(answer.jobs.size(), 1u) << "the first one is given whatever its size";
  EXPECT_TRUE(answer.more);
  op.wanted.after = answer.next;
  EXPECT_EQ(expect<ListJobsReply>(op).answer.jobs.at(0).job, "b");
}

TEST_P(StoredJobTest, ABatchIsListedAsItWasSubmitted) {
  for (const char* id : {"d", "a", "c", "b"}) submit(job(id, "batch"));
  submit(job("outside"));
  const auto held = take(2);  // d, a
  finish(held[0].lease);
  EXPECT_EQ(pages({.batch = "batch"}, 3), (std::pair(Strings{"d", "a", "c", "b"}, 2)));
  EXPECT_EQ(pages({.batch = "batch", .state = JobState::queued}, 1).first, (Strings{"c", "b"}));
  // A job that changes its state between two pages keeps its place.
  const JobsAnswer answer = list({.batch = "batch"}, 2);
  EXPECT_EQ(answer.jobs.size(), 2u);
  finish(held[1].lease);
  expect<CancelReply>(CancelJobs{tenant, {"b"}, ""});
  const JobsAnswer rest = list({.batch = "batch", .after = answer.next}, 2);
  ASSERT_EQ(rest.jobs.size(), 2u);
  EXPECT_EQ(rest.jobs[0].job + rest.jobs[1].job, "cb");
  EXPECT_EQ(rest.jobs[1].state, JobState::cancelled);
  EXPECT_TRUE(list({.batch = "none"}).jobs.empty());
  for (const char* place : {"x", "1x", "-1", "99999999999999999999999"}) {
    refuse(ListJobs{tenant, {.batch = "batch", .after = place}}, Code::invalid_value, place);
  }
}

// ---- dropping

TEST_P(StoredJobTest, OnlyFailedJobsAreDropped) {
  for (const char* id : {"a", "b", "c"}) submit(job(id, "batch"));
  const auto held = take(2);
  fail_with(held[0].lease, Code::invalid_token);
  finish(held[1].lease);
  const auto reply = expect<DropReply>(DropJobs{tenant, {"a", "b", "c", "z"}, ""});
  EXPECT_EQ(reply.dropped, 1u);
  EXPECT_EQ(reply.not_failed, 2u);
  EXPECT_EQ(reply.unknown, 1u);
  refuse(GetJob{tenant, "a"}, Code::not_found);
  EXPECT_EQ(count("batch").counts, (JobCounts{1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(count().counts, (JobCounts{1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(read(1).entries.size(), 2u) << "its entry stays";
  EXPECT_EQ(expect<RetryReply>(RetryJobs{tenant, {"a"}, ""}).unknown, 1u);
  EXPECT_FALSE(submit(job("a", "batch")).known) << "the id is free again";
}

TEST_P(StoredJobTest, TheFailedJobsOfABatchAreDroppedInSlices) {
  for (std::uint64_t i = 0; i < 5; ++i) submit(job(numbered("j", i), "batch"));
  for (const auto& held : take(5)) fail_with(held.lease, Code::invalid_token);
  auto reply = expect<DropReply>(DropJobs{tenant, {}, "batch", 3});
  EXPECT_EQ(reply.dropped, 3u);
  EXPECT_TRUE(reply.more);
  EXPECT_EQ(count("batch").counts.failed, 2u);
  reply = expect<DropReply>(DropJobs{tenant, {}, "batch", 3});
  EXPECT_EQ(reply.dropped, 2u);
  EXPECT_FALSE(reply.more);
  EXPECT_EQ(count("batch").counts, JobCounts{});
  EXPECT_TRUE(list({.batch = "batch"}).jobs.empty());
}

// ---- a start at a time

TEST_P(StoredJobTest, AJobThatWaitsForItsStartDelaysNoOther) {
  SubmitJob later = job("later");
  later.priority = 0;
  later.not_before_us = start_us + 10 * one_s_us;
  submit(later);
  submit(job("now"));
  EXPECT_EQ(ids(take(5)), (Strings{"now"}));
  EXPECT_EQ(start().started, 0u);
  EXPECT_EQ(list({.job = "later"}).jobs.at(0).not_before_us, later.not_before_us);
  EXPECT_EQ(look("later").start_us, later.not_before_us);
  EXPECT_EQ(count().counts, (JobCounts{1, 1, 0, 0, 0, 0})) << "it counts as queued";
  EXPECT_TRUE(submit(later).known);
  ledger.now_us = start_us + 10 * one_s_us;
  EXPECT_EQ(start().started, 1u);
  EXPECT_EQ(start().started, 0u);
  const auto given = take(5);
  EXPECT_EQ(ids(given), (Strings{"later"}));
  EXPECT_FALSE(look("later").start_us);
  // Given back, it does not wait again.
  give_back({given[0].lease});
  EXPECT_EQ(ids(take(5)), (Strings{"later"}));
}

TEST_P(StoredJobTest, ATimeToStartThatHasPassedIsNone) {
  SubmitJob op = job("a");
  op.not_before_us = start_us;
  submit(op);
  EXPECT_EQ(ids(take(5)), (Strings{"a"}));
}

TEST_P(StoredJobTest, AJobThatWaitsForItsStartIsCancelledAndExpires) {
  for (const char* id : {"cancelled", "expired", "stays"}) {
    SubmitJob op = job(id, "batch");
    op.not_before_us = start_us + 10 * one_s_us;
    if (std::string(id) == "expired") op.deadline_us = start_us + 5 * one_s_us;
    submit(op);
  }
  EXPECT_EQ(expect<CancelReply>(CancelJobs{tenant, {"cancelled"}, ""}).cancelled, 1u);
  ledger.now_us = start_us + 5 * one_s_us;
  EXPECT_EQ(expect<ExpireReply>(ExpireJobs{tenant}).ended.at(0).job, "expired");
  ledger.now_us = start_us + 20 * one_s_us;
  EXPECT_EQ(start().started, 1u) << "what has ended does not start";
  EXPECT_EQ(ids(take(5)), (Strings{"stays"}));
}

TEST_P(StoredJobTest, JobsStartInSlicesByTheirTime) {
  for (std::uint64_t i = 0; i < 5; ++i) {
    SubmitJob op = job(numbered("j", i));
    op.not_before_us = start_us + static_cast<std::int64_t>(9 - i) * one_s_us;
    submit(op);
  }
  ledger.now_us = start_us + 60 * one_s_us;
  auto reply = expect<StartReply>(StartJobs{tenant, 2});
  EXPECT_EQ(reply.started, 2u);
  EXPECT_TRUE(reply.more);
  EXPECT_EQ(ids(take(9)), (Strings{"j3", "j4"}));
  reply = expect<StartReply>(StartJobs{tenant, 3});
  EXPECT_EQ(reply.started, 3u);
  EXPECT_FALSE(reply.more);
}

// ---- errors of engines

TEST_P(StoredJobTest, AJobRunsAgainAfterAnErrorThatIsNotItsOwn) {
  SubmitJob op = job("a", "batch");
  op.max_attempts = 4;
  submit(op);
  std::int64_t pause_us = 2 * one_s_us;
  for (std::uint32_t failures = 1; failures < 4; ++failures, pause_us *= 4) {
    const FinishReply again = fail_with(take(1).at(0).lease, Code::out_of_memory);
    EXPECT_EQ(again.number, 0u);
    EXPECT_EQ(again.state, JobState::queued);
    const JobInfo info = list({.job = "a"}).jobs.at(0);
    EXPECT_EQ(info.failures, failures);
    EXPECT_EQ(info.attempts, failures);
    EXPECT_EQ(info.not_before_us, ledger.now_us + pause_us);
    EXPECT_EQ(info.error->code, Code::out_of_memory);
    EXPECT_TRUE(read(1).entries.empty());
    EXPECT_EQ(count("batch").counts, (JobCounts{1, 0, 0, 0, 0, 0}));
    ledger.now_us += pause_us - 1;
    EXPECT_EQ(start().started, 0u);
    EXPECT_TRUE(take(1).empty());
    ledger.now_us += 1;
    EXPECT_EQ(start().started, 1u);
  }
  EXPECT_EQ(fail_with(take(1).at(0).lease, Code::out_of_memory).number, 1u)
      << "so many failures are enough";
  EXPECT_EQ(look("a").state, JobState::failed);
  EXPECT_EQ(look("a").failures, 4u);
  expect<RetryReply>(RetryJobs{tenant, {"a"}, ""});
  const JobInfo retried = list({.job = "a"}).jobs.at(0);
  EXPECT_FALSE(retried.error || retried.not_before_us);
  EXPECT_EQ(retried.failures, 0u);
  EXPECT_EQ(finish(take(1).at(0).lease).state, JobState::completed);
}

TEST_P(StoredJobTest, AnErrorOfTheJobItselfEndsIt) {
  for (const Code code : {Code::context_exceeded, Code::invalid_value, Code::template_error,
                          Code::kv_exceeded, Code::fingerprint_mismatch}) {
    const std::string id(code_name(code));
    SubmitJob op = job(id);
    op.max_attempts = 9;
    submit(op);
    EXPECT_NE(fail_with(take(1).at(0).lease, code).number, 0u) << id;
    EXPECT_EQ(look(id).state, JobState::failed);
  }
}

TEST_P(StoredJobTest, AJobThatIsToBeCancelledDoesNotRunAgain) {
  submit(job("a"));
  const LeaseId lease = take(1).at(0).lease;
  expect<CancelReply>(CancelJobs{tenant, {"a"}, ""});
  EXPECT_EQ(fail_with(lease, Code::internal).state, JobState::failed);
}

// Deaths and errors count together.
TEST_P(StoredJobTest, ASuspectThatWaitsForItsStartStaysOne) {
  SubmitJob op = job("a");
  op.max_attempts = 3;
  submit(op);
  give_back({take(1).at(0).lease}, Blame::died);
  ASSERT_TRUE(look("a").suspect);
  fail_with(take(1, true).at(0).lease, Code::device_error);
  EXPECT_EQ(suspects(), 0u) << "it is in no queue while it waits";
  ledger.now_us += 2 * one_s_us;
  start();
  EXPECT_TRUE(take(1).empty());
  const auto alone = take(1, true);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_TRUE(alone[0].alone);
  give_back({alone[0].lease}, Blame::died);
  EXPECT_EQ(look("a").failures, 2u);
  EXPECT_EQ(give_back({take(1, true).at(0).lease}, Blame::died).ended.size(), 1u);
}

// ---- comparing

TEST_P(StoredJobTest, TheTimesOfAJobMakeNoOther) {
  SubmitJob before = job("a");
  before.hash_version = 2;
  before.hash = "hash with times";
  submit(before);
  SubmitJob now = job("a");
  now.timed_hash = "hash with times";
  EXPECT_TRUE(submit(now).known);
  now.timed_hash = "hash with other times";
  refuse(now, Code::conflict);
  before = job("b");
  before.hash_version = 2;
  submit(before);
  EXPECT_TRUE(submit(job("b")).known) << "without times both versions are the same";
}

TEST_P(StoredJobTest, TheTraceOfAJobMakesNoOther) {
  SubmitJob before = job("a");
  before.hash_version = 3;
  before.hash = "hash with its trace";
  submit(before);
  SubmitJob now = job("a");
  now.traced_hash = "hash with its trace";
  EXPECT_TRUE(submit(now).known);
  now.traced_hash = "hash with another trace";
  refuse(now, Code::conflict);
  before = job("b");
  before.hash_version = 3;
  submit(before);
  EXPECT_TRUE(submit(job("b")).known) << "without a trace both versions are the same";
}

}  // namespace
}  // namespace millrace::broker::test
