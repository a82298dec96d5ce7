#include "engine/worker/step_watch.hpp"

#include <gtest/gtest.h>

namespace millrace::worker {
namespace {

constexpr std::int64_t second = 1'000'000;

TEST(StepWatch, AStepThatIsLookedAtEachSecondIsWatchedAllTheTime) {
  StepWatch watch;
  for (std::int64_t now = 1; now <= 120; ++now) {
    EXPECT_EQ(watch.look(10 * second, (10 + now) * second), now * second);
  }
}

TEST(StepWatch, ThePauseOfAStoppedProcessIsNotTheDevices) {
  StepWatch watch;
  EXPECT_EQ(watch.look(10 * second, 11 * second), second);
  EXPECT_LE(watch.look(10 * second, 1'000 * second), 3 * second);
  EXPECT_LE(watch.look(10 * second, 1'001 * second), 4 * second);
}

TEST(StepWatch, APauseBeforeTheFirstLookDoesNotCountEither) {
  StepWatch watch;
  EXPECT_LE(watch.look(10 * second, 1'000 * second), 2 * second);
}

TEST(StepWatch, EachStepIsWatchedFromItsOwnBegin) {
  StepWatch watch;
  for (std::int64_t now = 11; now < 100; ++now) watch.look(10 * second, now * second);
  EXPECT_EQ(watch.look(100 * second, 101 * second), second);
}

}  // namespace
}  // namespace millrace::worker
