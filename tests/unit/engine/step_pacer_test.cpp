// How long steps last: the budget of tokens that the times of earlier steps give.
#include "engine/core/request/step_pacer.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {
namespace {

// At two milliseconds a token, 125 tokens last a quarter of a second. That is less than the rows
// that may run at once, which must not matter while few run.
TEST_F(LoopTest, StepsOfPromptsLastAsLongAsTheTargetHoweverManyRowsMayRun) {
  SchedulerOptions options;
  options.max_batch = 256;
  open(256, options);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(loop_->add(id, request(id, 1'000, "a b", 2)));
  std::vector<Event> events;
  std::vector<std::uint32_t> tokens;
  while (loop_->busy()) {
    ASSERT_TRUE(loop_->step(events));
    tokens.push_back(loop_->counters().last_tokens);
    clock_.advance_us(2'000 * tokens.back());
  }
  ASSERT_GT(tokens.size(), 10u);
  EXPECT_GT(tokens.front(), 125u) << "the speed is not known yet";
  // The step after the first was planned before the first had ended.
  EXPECT_LE(*std::max_element(tokens.begin() + 2, tokens.end()), 125u);
  EXPECT_EQ(events.size(), 3u);
}

TEST(StepPacer, ShrinksAtOnceAndGrowsAfterFullSteps) {
  StepPacer pacer(40, 104, 512, 250'000);
  EXPECT_EQ(pacer.tokens(), 104u);
  for (int i = 0; i < 40; ++i) pacer.took(30, 1000);  // decoding tells nothing about prompts
  EXPECT_EQ(pacer.tokens(), 104u);
  pacer.took(104, 1000);
  EXPECT_EQ(pacer.tokens(), 208u);
  pacer.took(160, 1000);
  EXPECT_EQ(pacer.tokens(), 416u);
  pacer.took(416, 0);
  EXPECT_EQ(pacer.tokens(), 512u);
  pacer.took(512, 1'000'000);
  EXPECT_EQ(pacer.tokens(), 128u);
  for (int i = 0; i < 40; ++i) pacer.took(30, 10'000);
  EXPECT_EQ(pacer.tokens(), 128u);
  pacer.took(128, 240'000);  // close to the target: stays
  EXPECT_EQ(pacer.tokens(), 128u);
  pacer.took(128, 150'000);
  EXPECT_EQ(pacer.tokens(), 192u);
  for (int i = 0; i < 20; ++i) pacer.took(30, 1'000'000'000);
  EXPECT_EQ(pacer.tokens(), 40u);
  EXPECT_EQ(StepPacer(40, 104, 16, 250'000).tokens(), 16u);
}

}  // namespace
}  // namespace millrace::engine
