// Every ledger must handle ends without a result (cancels, deadlines), retries and counts as tested
// here.
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

using Strings = std::vector<std::string>;

class EndingTest : public LedgerTest {};

INSTANTIATE_TEST_SUITE_P(Ledgers, EndingTest, every_kind(), kind_name);

TEST_P(EndingTest, CancellingTellsQueuedLeasedEndedAndUnknownApart) {
  for (const char* id : {"a", "b", "c"}) submit(job(id));
  finish(take(1).at(0).lease);
  const LeaseId lease = take(1).at(0).lease;
  const auto reply = expect<CancelReply>(CancelJobs{tenant, {"a", "b", "c", "d"}, ""});
  EXPECT_EQ(reply.ended, 1u);
  EXPECT_EQ(reply.requested, 1u);
  EXPECT_EQ(reply.cancelled, 1u);
  EXPECT_EQ(reply.unknown, 1u);
  ASSERT_EQ(reply.leases.size(), 1u);
  EXPECT_EQ(reply.leases[0].lease, lease);
  ASSERT_EQ(reply.numbers.size(), 1u);
  EXPECT_EQ(reply.numbers[0].number, 2u);
  EXPECT_EQ(read(2).entries.at(0).body,
            "c|label of c|model||labels of c|4|cancelled|0|" + std::to_string(start_us));
  EXPECT_TRUE(look("b").cancel_requested);
  finish(lease, JobState::cancelled);
  EXPECT_EQ(count().counts, (JobCounts{0, 0, 1, 0, 2, 0}));
}

TEST_P(EndingTest, AJobWhoseLabelsAreDamagedFailsHoweverItEnds) {
  for (const char* id : {"finished", "cancelled"}) {
    SubmitJob op = job(id);
    op.labels = "damaged";
    submit(op);
  }
  EXPECT_EQ(finish(take(1).at(0).lease).state, JobState::failed);
  const auto reply = expect<CancelReply>(CancelJobs{tenant, {"cancelled"}, ""});
  EXPECT_EQ(reply.numbers.at(0).state, JobState::failed);
  for (const auto& entry : read(1).entries) EXPECT_EQ(entry.body, "damaged");
  EXPECT_EQ(count().counts, (JobCounts{0, 0, 0, 2, 0, 0}));
  EXPECT_EQ(look("finished").state, JobState::failed);
  EXPECT_EQ(expect<RetryReply>(RetryJobs{tenant, {"finished"}, "", 1}).retried, 1u);
  EXPECT_EQ(take(1).at(0).body, "body of finished") << "a failed job keeps its body";
}

TEST_P(EndingTest, AJobGivenBackAfterACancelEnds) {
  submit(job("a"));
  const LeaseId lease = take(1).at(0).lease;
  expect<CancelReply>(CancelJobs{tenant, {"a"}, ""});
  const GiveBackReply reply = give_back({lease});
  EXPECT_TRUE(reply.returned.empty());
  ASSERT_EQ(reply.ended.size(), 1u);
  EXPECT_EQ(reply.ended[0].state, JobState::cancelled);
  EXPECT_TRUE(take(1).empty());
}

TEST_P(EndingTest, ABatchIsCancelledInSlices) {
  for (int i = 0; i < 7; ++i) submit(job(numbered("j", static_cast<std::uint64_t>(i)), "batch"));
  submit(job("outside"));
  const auto held = take(2);
  CancelJobs op{tenant, {}, "batch", 3};
  auto reply = expect<CancelReply>(op);
  EXPECT_EQ(reply.cancelled, 3u);
  EXPECT_TRUE(reply.more);
  reply = expect<CancelReply>(op);
  EXPECT_EQ(reply.cancelled, 2u);
  EXPECT_EQ(reply.requested, 1u);
  EXPECT_TRUE(reply.more);
  reply = expect<CancelReply>(op);
  EXPECT_EQ(reply.requested, 1u);
  EXPECT_FALSE(reply.more);
  reply = expect<CancelReply>(op);
  EXPECT_EQ(reply.cancelled + reply.requested, 0u);
  EXPECT_FALSE(reply.more);
  EXPECT_EQ(count("batch").counts, (JobCounts{0, 2, 0, 0, 5, 0}));
  EXPECT_EQ(count().counts, (JobCounts{1, 2, 0, 0, 5, 0}));
}

TEST_P(EndingTest, FailedJobsRunAgainWhenAsked) {
  for (const char* id : {"a", "b"}) submit(job(id, "batch"));
  const auto held = take(2);
  finish(held[0].lease, JobState::failed);
  finish(held[1].lease);
  const auto reply = expect<RetryReply>(RetryJobs{tenant, {"a", "b", "c"}, ""});
  EXPECT_EQ(reply.retried, 1u);
  EXPECT_EQ(reply.not_failed, 1u);
  EXPECT_EQ(reply.unknown, 1u);
  EXPECT_EQ(look("a").number, 0u);
  const ClaimedJob again = take(5).at(0);
  EXPECT_EQ(again.attempt, 1u);
  EXPECT_EQ(again.body, "body of a");
  EXPECT_EQ(finish(again.lease).number, 3u) << "the first end stays in the stream";
  EXPECT_EQ(count("batch").counts, (JobCounts{0, 0, 2, 0, 0, 0}));
}

TEST_P(EndingTest, ABatchIsRetriedInSlices) {
  for (int i = 0; i < 5; ++i) submit(job(numbered("j", static_cast<std::uint64_t>(i)), "batch"));
  for (const auto& claimed : take(5)) finish(claimed.lease, JobState::failed);
  auto reply = expect<RetryReply>(RetryJobs{tenant, {}, "batch", 3});
  EXPECT_EQ(reply.retried, 3u);
  EXPECT_TRUE(reply.more);
  // A job that fails again before the next slice stays failed.
  finish(take(1).at(0).lease, JobState::failed);
  reply = expect<RetryReply>(RetryJobs{tenant, {}, "batch", 3, reply.last});
  EXPECT_EQ(reply.retried, 2u);
  EXPECT_FALSE(reply.more);
  EXPECT_EQ(look("j0").state, JobState::failed);
  EXPECT_EQ(expect<RetryReply>(RetryJobs{tenant, {}, "batch", 3}).retried, 1u);
  EXPECT_EQ(ids(take(9)), (Strings{"j0", "j1", "j2", "j3", "j4"}));
}

TEST_P(EndingTest, DeadlinesEndQueuedAndLeasedJobs) {
  for (const auto& [id, after] : std::vector<std::pair<std::string, std::int64_t>>{
           {"late", 300}, {"leased", 50}, {"soon", 100}, {"sooner", 60}}) {
    SubmitJob op = job(id);
    op.deadline_us = start_us + after;
    if (id == "leased") op.priority = 0;
    submit(op);
  }
  submit(job("never"));
  const LeaseId lease = take(1).at(0).lease;
  EXPECT_TRUE(expect<ExpireReply>(ExpireJobs{tenant}).ended.empty());
  ledger.now_us = start_us + 100;
  EXPECT_EQ(ids(take(1)), (Strings{"late"})) << "a job past its deadline is not handed out";
  auto reply = expect<ExpireReply>(ExpireJobs{tenant, 2});
  ASSERT_EQ(reply.ended.size(), 2u);
  EXPECT_EQ(reply.ended[0].job, "leased");
  EXPECT_EQ(reply.ended[1].job, "sooner");
  ASSERT_EQ(reply.leases.size(), 1u);
  EXPECT_EQ(reply.leases[0].lease, lease);
  EXPECT_TRUE(reply.more);
  reply = expect<ExpireReply>(ExpireJobs{tenant, 2});
  ASSERT_EQ(reply.ended.size(), 1u);
  EXPECT_EQ(reply.ended[0].state, JobState::expired);
  EXPECT_FALSE(reply.more);
  refuse(Finish{lease, JobState::completed, "x", ""}, Code::stale);
  EXPECT_EQ(count().counts, (JobCounts{1, 1, 0, 0, 0, 3}));
}

TEST_P(EndingTest, CountsAreLivePerBatchAndPerTenant) {
  for (int i = 0; i < 6; ++i) submit(job(numbered("a", static_cast<std::uint64_t>(i)), "first"));
  for (int i = 0; i < 3; ++i) submit(job(numbered("b", static_cast<std::uint64_t>(i)), "second"));
  const auto held = take(4);
  finish(held[0].lease);
  finish(held[1].lease, JobState::failed);
  finish(held[2].lease, JobState::cancelled);
  EXPECT_EQ(count("first").counts, (JobCounts{2, 1, 1, 1, 1, 0}));
  EXPECT_EQ(count("second").counts, (JobCounts{3, 0, 0, 0, 0, 0}));
  EXPECT_EQ(count().counts, (JobCounts{5, 1, 1, 1, 1, 0}));
  EXPECT_EQ(count("third").counts, JobCounts{});
  refuse(GetJob{tenant, "zz"}, Code::not_found, "'zz'");
}

}  // namespace
}  // namespace millrace::broker::test
