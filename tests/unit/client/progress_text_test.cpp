#include "client/run/progress_text.hpp"

#include <gtest/gtest.h>

namespace millrace::client {
namespace {

RunProgress halfway() {
  RunProgress progress;
  progress.total = 200;
  progress.done = 60;
  progress.failed = 2;
  progress.running = 40;
  progress.engine_starts = 1;
  progress.engine_ready = true;
  progress.done_at_ready = 20;  // earlier and bad lines, which took no time
  progress.ready_seconds = 10;
  progress.seconds = progress.ended_seconds = 40;
  progress.prompt_tokens = 300;
  progress.completion_tokens = 100;
  return progress;
}

TEST(ProgressText, ShowsAllPartsIfThereIsRoom) {
  EXPECT_EQ(progress_text(halfway(), 200),
            "60/200 done (30.0 %), 2 failed, 40 with the engine, 10.0 tok/s, 1 min 0 s left");
  RunProgress live = halfway();
  live.tokens_per_second_now = 321.5;
  EXPECT_NE(progress_text(live, 200).find(", 321.5 tok/s"), std::string::npos);
  live.cached_tokens = 75;
  EXPECT_NE(progress_text(live, 200).find(", 25 % of prompts cached, 1 min"), std::string::npos);
}

TEST(ProgressText, NeverGrowsBeyondTheTerminal) {
  EXPECT_EQ(progress_text(halfway(), 60),
            "60/200 done (30.0 %), 2 failed, 10.0 tok/s, 1 min 0 s left");
  EXPECT_EQ(progress_text(halfway(), 40), "60/200 done (30.0 %), 1 min 0 s left");
  RunProgress starting = halfway();
  starting.engine_ready = false;
  for (std::size_t columns = 0; columns < 90; ++columns) {
    EXPECT_LE(progress_text(halfway(), columns).size(), columns);
    EXPECT_LE(progress_text(starting, columns).size(), columns);
  }
  EXPECT_EQ(progress_text(starting, 60),
            "60/200 done (30.0 %), 2 failed, the engine loads the model");
}

TEST(ProgressText, SaysWhatHappensBeforeTheFirstJobHasEnded) {
  RunProgress progress;
  progress.total = 200;
  progress.engine_starts = 1;
  progress.seconds = 12;
  EXPECT_EQ(progress_text(progress, 200),
            "0/200 done (0.0 %), 0 failed, the engine loads the model, 12 s (its first start takes "
            "longer)");
  progress.engine_ready = true;
  progress.ready_seconds = 12;
  progress.running = 64;
  EXPECT_EQ(progress_text(progress, 200),
            "0/200 done (0.0 %), 0 failed, 64 with the engine, reading prompts");
  progress.tokens_per_second_now = 512;
  EXPECT_EQ(progress_text(progress, 200),
            "0/200 done (0.0 %), 0 failed, 64 with the engine, no result yet, 512.0 tok/s");
}

TEST(ProgressText, TheTimeLeftCountsDownUntilAnEndIsOverdue) {
  RunProgress progress = halfway();
  const double first = seconds_left(progress);
  progress.seconds += 10;
  EXPECT_DOUBLE_EQ(seconds_left(progress), first - 10);
  progress.seconds += 1'000;
  EXPECT_DOUBLE_EQ(seconds_left(progress), 1'010);  // as long as nothing has ended
}

TEST(ProgressText, ShowsTheTimeLeftOnceItCanBeEstimated) {
  RunProgress progress = halfway();
  // 30 s did the work of 60 jobs: 40 have ended, and 40 run and count half. That of 120 is left.
  EXPECT_DOUBLE_EQ(seconds_left(progress), 30.0 * (140 - 20) / (40 + 20));
  progress.done = 39;  // 19 have ended, and the 40 running jobs are longer
  EXPECT_LT(seconds_left(progress), 0);
  progress.done = progress.done_at_ready;
  progress.running = 0;
  EXPECT_LT(seconds_left(progress), 0);
  progress = halfway();
  progress.ready_seconds = -1;
  EXPECT_LT(seconds_left(progress), 0);
  progress = halfway();
  progress.done = progress.total;
  EXPECT_LT(seconds_left(progress), 0);
}

TEST(ProgressText, Durations) {
  EXPECT_EQ(duration_text(59.4), "59 s");
  EXPECT_EQ(duration_text(80), "1 min 20 s");
  EXPECT_EQ(duration_text(7'380), "2 h 3 min");
}

}  // namespace
}  // namespace millrace::client
