// Every ledger must keep batches, close them and tell their end once, as tested here.
#include "schemas/codec.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class BatchTest : public LedgerTest {
 protected:
  UpdateBatchReply change(const std::string& batch, bool close,
                          std::map<std::string, std::string> metadata = {}) {
    return expect<UpdateBatchReply>(UpdateBatch{tenant, {batch, close, std::move(metadata)}});
  }
  BatchState show(const std::string& batch) {
    auto reply = expect<ListBatchesReply>(ListBatches{tenant, {batch, ""}});
    return reply.answer.batches.empty() ? BatchState{} : reply.answer.batches.front();
  }
  std::vector<JobResult> ends() {
    std::vector<JobResult> out;
    for (const Entry& entry : read(1, batches_stream).entries) {
      auto end = decode_result(entry.body);
      EXPECT_TRUE(end) << (end ? "" : end.error().text());
      if (end) out.push_back(*std::move(end));
    }
    return out;
  }
};

INSTANTIATE_TEST_SUITE_P(Ledgers, BatchTest, every_kind(), kind_name);

TEST_P(BatchTest, ABatchBeginsWithItsFirstJob) {
  refuse(ListBatches{tenant, {"b", ""}}, Code::not_found, "b");
  refuse(UpdateBatch{tenant, {"b", true, {}}}, Code::not_found, "b");
  submit(job("x", "b"));
  ledger.now_us += 5;
  submit(job("y", "b"));
  const BatchState batch = show("b");
  EXPECT_EQ(batch.created_us, start_us);
  EXPECT_EQ(batch.counts, (JobCounts{2, 0, 0, 0, 0, 0}));
  EXPECT_FALSE(batch.closed || batch.finished_us);
  refuse(ListBatches{"other", {"b", ""}}, Code::not_found);
}

TEST_P(BatchTest, BatchesAreListedInPages) {
  for (const char* batch : {"b3", "b1", "b2"}) submit(job(std::string("of ") + batch, batch));
  submit(job("of none"));
  ListBatches op{tenant, {}, 2};
  auto answer = expect<ListBatchesReply>(op).answer;
  ASSERT_EQ(answer.batches.size(), 2u);
  EXPECT_EQ(answer.batches[0].batch + answer.batches[1].batch, "b1b2");
  EXPECT_TRUE(answer.more);
  EXPECT_EQ(answer.next, "b2");
  op.wanted.after = answer.next;
  answer = expect<ListBatchesReply>(op).answer;
  ASSERT_EQ(answer.batches.size(), 1u);
  EXPECT_EQ(answer.batches[0].batch, "b3");
  EXPECT_FALSE(answer.more);
  EXPECT_EQ(answer.next, "");
}

TEST_P(BatchTest, BatchesWhoseJobsHaveEndedCanBeLeftOut) {
  for (const char* batch : {"b1", "b2", "b3", "b4", "b5"}) submit(job(batch, batch));
  change("b1", true);
  for (const auto& taken : take(3)) finish(taken.lease);  // of b1, which is closed, b2 and b3
  EXPECT_EQ(take(1).at(0).job, "b4") << "an engine holds it";
  ListBatches op{tenant, {.batch = {}, .after = {}, .unfinished = true}, 1};
  auto answer = expect<ListBatchesReply>(op).answer;
  ASSERT_EQ(answer.batches.size(), 1u);
  EXPECT_EQ(answer.batches[0].batch, "b4");
  EXPECT_TRUE(answer.more);
  op.wanted.after = answer.next;
  answer = expect<ListBatchesReply>(op).answer;
  ASSERT_EQ(answer.batches.size(), 1u);
  EXPECT_EQ(answer.batches[0].batch, "b5");
  EXPECT_FALSE(answer.more);
}

TEST_P(BatchTest, AQuestionLooksAtSoManyBatchesOnly) {
  std::vector<Operation> operations;
  for (std::uint64_t i = 0; i < looked_batches + 2; ++i) {
    const std::string name = "b" + std::to_string(10'000 + i);
    operations.emplace_back(job(name, name));
  }
  const std::string last = "b" + std::to_string(10'000 + looked_batches + 1);
  (void)ledger.apply(operations);
  operations.clear();
  for (const auto& taken : take(looked_batches + 1)) {
    operations.emplace_back(Finish{taken.lease, JobState::completed, "body", "", {}});
  }
  (void)ledger.apply(operations);
  ListBatches op{tenant, {.batch = {}, .after = {}, .unfinished = true}, 250};
  auto answer = expect<ListBatchesReply>(op).answer;
  EXPECT_TRUE(answer.batches.empty());
  EXPECT_TRUE(answer.more);
  op.wanted.after = answer.next;
  answer = expect<ListBatchesReply>(op).answer;
  ASSERT_EQ(answer.batches.size(), 1u);
  EXPECT_EQ(answer.batches[0].batch, last);
  EXPECT_FALSE(answer.more);
}

TEST_P(BatchTest, AClosedBatchTakesNoNewJobs) {
  submit(job("a", "b"));
  change("b", true);
  refuse(job("new", "b"), Code::batch_closed, "'b' is closed");
  EXPECT_TRUE(submit(job("a", "b")).known) << "a job that it holds is known";
  SubmitJob other = job("a", "b");
  other.hash = "another";
  refuse(other, Code::conflict);
  EXPECT_FALSE(submit(job("new", "another")).known);
  // Also in the middle of a set.
  const auto replies = ledger.apply({job("n1", "open"), job("n2", "b"), job("n3", "open")});
  ASSERT_EQ(replies.size(), 3u);
  EXPECT_TRUE(replies[0] && replies[2]);
  EXPECT_EQ(replies[1].error().code, Code::batch_closed);
  EXPECT_EQ(count("open").counts.queued, 2u);
}

TEST_P(BatchTest, TellsWhereItsResultsBegin) {
  submit(job("a", "early"));
  EXPECT_TRUE(show("early").stream == "results" && show("early").first == 1);
  EXPECT_EQ(finish(take(1)[0].lease).number, 1u);
  for (const char* id : {"b", "c"}) submit(job(id, "late"));
  for (const auto& held : take(2)) finish(held.lease);
  EXPECT_EQ(show("late").first, 2u) << "its first job was submitted after result 1";
  EXPECT_EQ(show("early").first, 1u);
  SubmitJob other = job("d", "late");
  other.stream = "other";
  submit(other);
  EXPECT_TRUE(show("late").stream == "results" && show("late").first == 2) << "it stays";
}

TEST_P(BatchTest, TheEndOfABatchIsToldOnceWithItsCounts) {
  for (const char* id : {"a", "b", "c", "d"}) submit(job(id, "batch"));
  change("batch", false, {{"owner", "me"}});
  const auto held = take(3);
  EXPECT_EQ(finish(held[0].lease).batch_number, 0u);
  EXPECT_EQ(change("batch", true).written, 0u) << "jobs are left";
  EXPECT_EQ(finish(held[1].lease, JobState::failed).batch_number, 0u);
  ledger.now_us += 7;
  EXPECT_EQ(expect<CancelReply>(CancelJobs{tenant, {"d"}, ""}).numbers.at(0).batch_number, 0u);
  const FinishReply last = finish(held[2].lease);
  EXPECT_EQ(last.batch, "batch");
  EXPECT_EQ(last.batch_number, 1u);
  ASSERT_EQ(ends().size(), 1u);
  const JobResult end = ends()[0];
  EXPECT_EQ(end.batch, "batch");
  EXPECT_EQ(end.state, JobState::completed);
  EXPECT_EQ(end.counts, (JobCounts{0, 0, 2, 1, 1, 0}));
  EXPECT_EQ(end.metadata.at("owner"), "me");
  EXPECT_EQ(end.submitted_us, start_us);
  EXPECT_EQ(end.ended_us, start_us + 7);
  EXPECT_EQ(show("batch").finished_us, start_us + 7);
  EXPECT_EQ(show("batch").number, 1u);
  EXPECT_EQ(change("batch", true).written, 0u) << "it was told";
  EXPECT_EQ(ends().size(), 1u);
}

TEST_P(BatchTest, ABatchWhoseJobsHaveEndedFinishesWhenItIsClosed) {
  submit(job("a", "b"));
  EXPECT_EQ(finish(take(1).at(0).lease).batch_number, 0u) << "an open one may get more jobs";
  EXPECT_TRUE(ends().empty());
  const UpdateBatchReply closed = change("b", true);
  EXPECT_EQ(closed.written, 1u);
  EXPECT_TRUE(closed.batch.finished_us);
  EXPECT_EQ(ends().size(), 1u);
}

// Ends of one transaction, of one set, and those that the ledger decides.
TEST_P(BatchTest, EveryWayToEndTheLastJobsTellsIt) {
  for (const char* id : {"a1", "a2"}) submit(job(id, "set"));
  SubmitJob late = job("late", "expired");
  late.deadline_us = start_us + 1;
  submit(late);
  SubmitJob broken = job("broken", "died");
  broken.max_attempts = 1;
  broken.priority = 4;
  submit(broken);
  for (const char* id : {"c1", "c2"}) submit(job(id, "cancelled"));
  for (const char* batch : {"set", "expired", "died", "cancelled"}) change(batch, true);
  const auto held = take(2);
  const auto replies = ledger.apply({Finish{held[0].lease, JobState::completed, "r", ""},
                                     Finish{held[1].lease, JobState::completed, "r", ""}});
  EXPECT_EQ(std::get<FinishReply>(*replies[0]).batch_number, 0u);
  EXPECT_EQ(std::get<FinishReply>(*replies[1]).batch_number, 1u);
  expect<CancelReply>(CancelJobs{tenant, {}, "cancelled"});
  EXPECT_EQ(ends().size(), 2u);
  ledger.now_us += 5;
  EXPECT_EQ(expect<ExpireReply>(ExpireJobs{tenant}).ended.at(0).batch_number, 3u);
  give_back({take(1).at(0).lease}, Blame::died);
  EXPECT_EQ(give_back({take(1, true).at(0).lease}, Blame::died).ended.at(0).batch_number, 4u);
  EXPECT_EQ(ends().at(3).counts, (JobCounts{0, 0, 0, 1, 0, 0}));
}

TEST_P(BatchTest, ARetryTakesTheEndBackAndTheNextOneIsToldAgain) {
  for (const char* id : {"a", "b"}) submit(job(id, "batch"));
  change("batch", true);
  const auto held = take(2);
  finish(held[0].lease, JobState::failed);
  EXPECT_EQ(finish(held[1].lease).batch_number, 1u);
  expect<RetryReply>(RetryJobs{tenant, {}, "batch"});
  EXPECT_FALSE(show("batch").finished_us);
  EXPECT_EQ(show("batch").number, 0u);
  EXPECT_EQ(finish(take(1).at(0).lease).batch_number, 2u);
  EXPECT_EQ(ends().at(1).counts, (JobCounts{0, 0, 2, 0, 0, 0}));
}

TEST_P(BatchTest, AJobThatRunsAgainKeepsItsBatchFromFinishing) {
  SubmitJob op = job("a", "b");
  op.max_attempts = 2;
  submit(op);
  change("b", true);
  const Error error{Code::out_of_memory, "no memory", ""};
  EXPECT_EQ(expect<FinishReply>(Finish{take(1).at(0).lease, JobState::failed, "", "", error})
                .batch_number,
            0u);
  EXPECT_FALSE(show("b").finished_us);
  ledger.now_us += 10'000'000;
  expect<StartReply>(StartJobs{tenant});
  EXPECT_EQ(finish(take(1).at(0).lease).batch_number, 1u);
}

TEST_P(BatchTest, MetadataIsSetMergedRemovedAndLimited) {
  submit(job("a", "b"));
  change("b", false, {{"one", "1"}, {"two", "2"}});
  const auto changed = change("b", false, {{"two", ""}, {"three", "3"}, {"never", ""}});
  const std::map<std::string, std::string> expected{{"one", "1"}, {"three", "3"}};
  EXPECT_EQ(changed.batch.metadata, expected);
  EXPECT_EQ(show("b").metadata, expected);
  refuse(UpdateBatch{tenant, {"b", true, {{"large", std::string(limits::metadata_bytes, 'x')}}}},
         Code::limit_exceeded, "bytes");
  EXPECT_FALSE(show("b").closed) << "a refused change changes nothing";
}

TEST_P(BatchTest, ABatchGoesWithItsLastJobAndItsNameIsFree) {
  submit(job("a", "b"));
  change("b", true, {{"owner", "me"}});
  finish(take(1).at(0).lease);
  Retain forget;
  forget.policy.job_age_us = 100;
  ledger.now_us += 1'000;
  expect<RetainReply>(forget);
  refuse(ListBatches{tenant, {"b", ""}}, Code::not_found);
  EXPECT_FALSE(submit(job("a", "b")).known);
  EXPECT_FALSE(show("b").closed);
  EXPECT_TRUE(show("b").metadata.empty());
  EXPECT_EQ(show("b").created_us, start_us + 1'000);
  EXPECT_EQ(ends().size(), 1u) << "what was told stays";
}

TEST_P(BatchTest, DroppedJobsLeaveTheirBatch) {
  for (const char* id : {"a", "b"}) submit(job(id, "batch"));
  const auto held = take(2);
  finish(held[0].lease, JobState::failed);
  finish(held[1].lease);
  expect<DropReply>(DropJobs{tenant, {}, "batch"});
  EXPECT_EQ(show("batch").counts, (JobCounts{0, 0, 1, 0, 0, 0}));
  change("batch", true);
  EXPECT_EQ(ends().at(0).counts, (JobCounts{0, 0, 1, 0, 0, 0}));
}

}  // namespace
}  // namespace millrace::broker::test
