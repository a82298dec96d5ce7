// Every ledger must count what waits, and what it costs, as tested here.
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class CountTest : public LedgerTest {};

INSTANTIATE_TEST_SUITE_P(Ledgers, CountTest,
                         testing::Values(Kind::memory, Kind::memory_two_handles, Kind::sqlite,
                                         Kind::sqlite_plain, Kind::sqlite_reopened),
                         kind_name);

TEST_P(CountTest, CountsAboutHowMuchTheQueuedJobsCost) {
  const auto queued_tokens = [&] {
    return expect<CountReply>(Count{.tenant = tenant, .batch = {}, .queue = true}).queued_tokens;
  };
  EXPECT_EQ(queued_tokens(), 0u);
  SubmitJob large = job("large"), small = job("small"), later = job("later");
  large.cost_tokens = 500;
  large.model = "other";
  small.cost_tokens = 30;
  later.cost_tokens = 1'000'000;
  later.not_before_us = ledger.now_us + 1'000'000;
  const std::int64_t first_us = ledger.now_us;
  for (const SubmitJob& one : {large, small}) submit(one);
  EXPECT_EQ(queued_tokens(), 530u) << "exact where all are looked at";
  EXPECT_EQ(expect<CountReply>(Count{.tenant = tenant, .batch = {}, .queue = true}).oldest_us,
            first_us);
  submit(later);
  EXPECT_EQ(queued_tokens(), 795u) << "one that is not ready counts as the others do";
  EXPECT_EQ(count().queued_tokens, 0u) << "only where it is asked for";
}

TEST_P(CountTest, OfALongQueueTheFirstJobsTellWhatItCosts) {
  std::vector<Operation> jobs;
  for (std::uint64_t i = 0; i < 2 * costed_jobs; ++i) {
    SubmitJob one = job(std::to_string(i));
    one.cost_tokens = i < costed_jobs ? 10 : 1'000;
    jobs.emplace_back(std::move(one));
  }
  (void)ledger.apply(jobs);
  const Count op{.tenant = tenant, .batch = {}, .queue = true};
  EXPECT_EQ(expect<CountReply>(op).queued_tokens, 2 * costed_jobs * 10);
}

TEST_P(CountTest, TellsTheOldestReadyJobAndBatches) {
  const auto at_length = [&] { return expect<CountReply>(Count{tenant, "", true}); };
  EXPECT_FALSE(at_length().oldest_us.has_value());
  const std::int64_t first_us = ledger.now_us;
  SubmitJob late = job("late");
  late.priority = 4;
  submit(late);
  ledger.now_us += 1'000;
  SubmitJob urgent = job("urgent");
  urgent.priority = 0;
  urgent.batch = "b";
  submit(urgent);
  CountReply counted = at_length();
  EXPECT_EQ(counted.oldest_us, first_us) << "whatever its priority";
  EXPECT_EQ(counted.batches, (BatchCounts{1, 0, 0, 0}));
  EXPECT_FALSE(count().oldest_us.has_value()) << "only where it is asked for";

  ChangeBatch close;
  close.batch = "b";
  close.close = true;
  expect<UpdateBatchReply>(UpdateBatch{tenant, close});
  EXPECT_EQ(at_length().batches, (BatchCounts{0, 1, 0, 0}));
  expect<PauseReply>(Pause{tenant, "b", ""});
  EXPECT_EQ(at_length().batches, (BatchCounts{0, 0, 1, 0}));
  expect<PauseReply>(Resume{tenant, "b", ""});
  finish(take(1).at(0).lease);  // the urgent one, and its batch
  EXPECT_EQ(at_length().batches, (BatchCounts{0, 0, 0, 1}));
  EXPECT_EQ(take(1).at(0).job, "late");
  EXPECT_FALSE(at_length().oldest_us.has_value()) << "an engine holds it";
}

TEST_P(CountTest, TellsWhatWaitsForEachModel) {
  const auto waiting = [&] { return expect<CountReply>(Count{tenant, "", true}).waiting; };
  EXPECT_TRUE(waiting().empty());
  const auto add = [&](const std::string& id, const std::string& model, std::uint64_t cost) {
    SubmitJob one = job(id);
    one.model = model;
    one.cost_tokens = cost;
    submit(one);
  };
  add("a", "large", 700);
  add("b", "*", 30);
  const std::string usual = job("x").model;
  for (std::size_t i = 0; i < costed_jobs; ++i) add("few" + std::to_string(i), usual, 5);
  EXPECT_EQ(waiting(),
            (std::vector<ModelQueue>{
                {"*", 1, 30}, {"large", 1, 700}, {usual, costed_jobs, costed_jobs * 5}}));
  // Beyond the first it is their mean that counts.
  for (std::size_t i = 0; i < costed_jobs; ++i) add("more" + std::to_string(i), usual, 500);
  EXPECT_EQ(waiting().at(2), (ModelQueue{usual, 2 * costed_jobs, 2 * costed_jobs * 5}));
  EXPECT_TRUE(count().waiting.empty()) << "only where it is asked for";

  expect<PauseReply>(Pause{tenant, "", "large"});
  EXPECT_EQ(waiting().size(), 2u) << "a paused model's jobs no engine can take";
  expect<PauseReply>(Pause{tenant, "", ""});
  EXPECT_TRUE(waiting().empty());
  expect<PauseReply>(Resume{tenant, "", ""});
  take(2 * static_cast<std::uint32_t>(costed_jobs) + 1);
  EXPECT_TRUE(waiting().empty()) << "engines hold them";
}

}  // namespace
}  // namespace millrace::broker::test
