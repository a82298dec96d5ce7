// A store that is unavailable for a while: nothing is lost, nothing is carried out twice, and what
// cannot be tried again ends the ledger.
#include <condition_variable>
#include <mutex>

#include "broker/ledger/ledger_thread.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class UnavailableTest : public testing::Test {
 protected:
  Result<std::vector<Result<Reply>>> apply(const std::vector<Operation>& operations) {
    return ledger->apply(operations, start_us);
  }
  // Expects that this batch is not answered, and that the ledger may be asked again.
  void fails(Fault fault, const std::vector<Operation>& operations, std::uint64_t after = 0) {
    plan->next = fault;
    plan->after = after;
    const auto replies = apply(operations);
    ASSERT_FALSE(replies);
    EXPECT_EQ(replies.error().code, Code::ledger_unavailable);
    EXPECT_TRUE(may_try_again(replies.error()));
    EXPECT_FALSE(replies.error().hint.empty());
  }
  std::uint64_t entries() {
    return std::get<ReadStreamReply>(*sound->apply(read, start_us)->front()).entries.size();
  }

  std::shared_ptr<MemoryStore> store = make_memory_store({publish, ""});
  std::shared_ptr<FaultPlan> plan = std::make_shared<FaultPlan>();
  std::unique_ptr<Ledger> ledger =
      make_stored_ledger(std::make_unique<FaultyStore>(make_memory_handle(store), plan), {publish});
  std::unique_ptr<Ledger> sound = make_memory_ledger(store);
  const std::vector<Operation> read{reading("log")};
  const std::vector<Operation> work{Append{tenant, "log", "j", "body"}, job("a"), claim(1)};
};

TEST_F(UnavailableTest, ABatchThatDidNotTakePlaceChangesNothingAndIsTriedAgain) {
  for (const Fault fault : {Fault::begin, Fault::records, Fault::conflict, Fault::lost}) {
    SCOPED_TRACE(static_cast<int>(fault));
    const std::uint64_t before = entries();
    const std::vector<Operation> batch{Append{tenant, "log", "j", "body"}};
    fails(fault, batch);
    EXPECT_EQ(entries(), before);
    const auto replies = apply(batch);
    ASSERT_TRUE(replies) << replies.error().text();
    EXPECT_EQ(std::get<FinishReply>(*replies->front()).number, before + 1);
    EXPECT_EQ(entries(), before + 1);
  }
}

TEST_F(UnavailableTest, AFailureInAnyOperationOnRecordsTakesAllChangesBack) {
  ASSERT_TRUE(apply({job("old"), claim(1)}));
  const std::vector<Operation> batch{job("a", "batch"),
                                     Append{tenant, "log", "j", "body"},
                                     claim(1),
                                     Finish{1, JobState::completed, "result", ""},
                                     MoveCursor{tenant, "log", "reader", 1},
                                     CancelJobs{tenant, {"a"}, ""},
                                     TrimStream{tenant, "log", 2},
                                     Retain{{{}, 1}}};
  std::uint64_t failed = 0;
  for (std::uint64_t after = 0;; ++after) {
    plan->next = Fault::records;
    plan->after = after;
    const auto replies = apply(batch);
    if (replies) break;
    ++failed;
    const auto seen =
        sound->apply(std::vector<Operation>{Count{tenant, ""}, GetJob{tenant, "a"}, reading("log"),
                                            reading("results"), FindLapsed{0, {}, true}},
                     start_us);
    EXPECT_EQ(std::get<CountReply>(*(*seen)[0]).counts, (JobCounts{0, 1, 0, 0, 0, 0}));
    EXPECT_FALSE((*seen)[1]) << "after " << after;
    EXPECT_EQ(std::get<ReadStreamReply>(*(*seen)[2]).high, 0u);
    EXPECT_EQ(std::get<ReadStreamReply>(*(*seen)[3]).high, 0u);
    EXPECT_EQ(std::get<FindLapsedReply>(*(*seen)[4]).leases.at(0).lease, 1u);
  }
  EXPECT_GT(failed, 25u);
  const auto count = sound->apply(std::vector<Operation>{Count{tenant, ""}}, start_us);
  EXPECT_EQ(std::get<CountReply>(*count->front()).counts, (JobCounts{0, 1, 1, 0, 0, 0}));
}

TEST_F(UnavailableTest, ACommitThatTookPlaceIsNotCarriedOutTwice) {
  plan->unreachable = 2;
  fails(Fault::lost_after, work);
  EXPECT_EQ(entries(), 1u);
  fails(Fault::none, work);  // nobody can tell yet
  fails(Fault::none, work);
  const auto replies = apply(work);
  ASSERT_TRUE(replies) << replies.error().text();
  EXPECT_EQ(std::get<FinishReply>(*(*replies)[0]).number, 1u);
  EXPECT_FALSE(std::get<SubmitReply>(*(*replies)[1]).known);
  EXPECT_EQ(std::get<ClaimReply>(*(*replies)[2]).jobs.at(0).job, "a") << "its lease is known";
  EXPECT_EQ(entries(), 1u);
}

TEST_F(UnavailableTest, AReadThatFailsIsSimplyReadAgain) {
  ASSERT_TRUE(apply(work));
  for (const Fault fault : {Fault::begin, Fault::records, Fault::lost, Fault::lost_after}) {
    fails(fault, read);
    const auto replies = apply(read);
    ASSERT_TRUE(replies);
    EXPECT_EQ(std::get<ReadStreamReply>(*replies->front()).entries.size(), 1u);
  }
}

TEST_F(UnavailableTest, AnotherBatchInPlaceOfTheOneToBeTriedAgainIsADefect) {
  fails(Fault::lost_after, work);
  const auto replies = apply({job("other")});
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, Code::internal);
  EXPECT_FALSE(may_try_again(replies.error()));
  EXPECT_FALSE(apply(work)) << "the ledger has ended";
}

// Runs a ledger thread on the faulty store.
class UnavailableThread : public UnavailableTest {
 protected:
  LedgerThread& start(const LedgerThreadOptions& options = {.retry_ms = 1, .retry_most_ms = 2}) {
    thread = std::make_unique<LedgerThread>(
        std::move(ledger),
        [this] {
          const std::lock_guard lock(mutex);
          woken.notify_all();
        },
        options);
    return *thread;
  }
  std::vector<Completion> wait_for(std::size_t count) {
    std::vector<Completion> out;
    std::unique_lock lock(mutex);
    woken.wait(lock, [&] {
      for (auto& completion : thread->take()) out.push_back(std::move(completion));
      return out.size() >= count;
    });
    return out;
  }

  std::mutex mutex;
  std::condition_variable woken;
  std::unique_ptr<LedgerThread> thread;
};

TEST_F(UnavailableThread, TriesAgainUntilTheLedgerAnswers) {
  plan->next = Fault::lost_after;
  plan->unreachable = 20;
  start();
  ASSERT_TRUE(thread->post(7, std::vector(work)));
  const auto done = wait_for(3);
  for (const auto& completion : done) EXPECT_TRUE(completion.reply);
  EXPECT_EQ(thread->statistics().retries, 21u);
  EXPECT_FALSE(thread->failure());
  EXPECT_EQ(entries(), 1u);
  ASSERT_TRUE(thread->post(8, reading("log")));
  EXPECT_TRUE(wait_for(1).at(0).reply);
}

TEST_F(UnavailableThread, GivesUpSoonOnceNobodyWantsToWaitForItAnyLonger) {
  plan->next = Fault::lost;
  plan->unreachable = 1'000'000'000;
  // The pause before the next try is over at once then, however long it is.
  start({.retry_ms = 3'600'000, .retry_most_ms = 3'600'000, .retries_at_stop = 0});
  ASSERT_TRUE(thread->post(1, std::vector(work)));
  EXPECT_FALSE(thread->failure());
  thread->give_up_soon();
  for (const auto& completion : wait_for(3)) {
    ASSERT_FALSE(completion.reply);
    EXPECT_EQ(completion.reply.error().code, Code::ledger_unavailable);
  }
  ASSERT_TRUE(thread->failure());
  EXPECT_EQ(entries(), 0u);
}

TEST_F(UnavailableThread, WaitsForALedgerThatAnswersAlsoThen) {
  start();
  thread->give_up_soon();
  ASSERT_TRUE(thread->post(1, std::vector(work)));
  for (const auto& completion : wait_for(3)) EXPECT_TRUE(completion.reply);
  EXPECT_FALSE(thread->failure());
}

TEST_F(UnavailableThread, GivesUpSoonOnceItIsStopped) {
  plan->next = Fault::lost;
  plan->unreachable = 1'000'000'000;
  start({.retry_ms = 1, .retry_most_ms = 2, .retries_at_stop = 3});
  ASSERT_TRUE(thread->post(1, std::vector(work)));
  thread->stop();
  const auto done = thread->take();
  ASSERT_EQ(done.size(), 3u);
  for (const auto& completion : done) {
    ASSERT_FALSE(completion.reply);
    EXPECT_EQ(completion.reply.error().code, Code::ledger_unavailable);
    EXPECT_EQ(completion.reply.error().retry_ms, limits::retry_start_ms);
    EXPECT_NE(completion.reply.error().hint.find("send it again"), std::string::npos);
  }
  ASSERT_TRUE(thread->failure());
  EXPECT_GE(thread->statistics().retries, 4u);
  EXPECT_EQ(entries(), 0u);
}

}  // namespace
}  // namespace millrace::broker::test
