// Every ledger must count what its queues cost as tested here.
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

class QueueCountTest : public LedgerTest {};

INSTANTIATE_TEST_SUITE_P(Ledgers, QueueCountTest,
                         testing::Values(Kind::memory, Kind::memory_two_handles, Kind::sqlite,
                                         Kind::sqlite_plain, Kind::sqlite_reopened),
                         kind_name);

TEST_P(QueueCountTest, CountsAboutHowMuchTheQueuedJobsCost) {
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

TEST_P(QueueCountTest, OfALongQueueTheFirstJobsTellWhatItCosts) {
  std::vector<Operation> jobs;
  for (std::uint64_t i = 0; i < 2 * costs_looked_at; ++i) {
    SubmitJob one = job(std::to_string(i));
    one.cost_tokens = i < costs_looked_at ? 10 : 1'000;
    jobs.emplace_back(std::move(one));
  }
  (void)ledger.apply(jobs);
  const Count op{.tenant = tenant, .batch = {}, .queue = true};
  EXPECT_EQ(expect<CountReply>(op).queued_tokens, 2 * costs_looked_at * 10);
}

}  // namespace
}  // namespace millrace::broker::test
