// A prompt of 120 MB on a real engine: it is refused by its size, while another job's steps go on.
#include <gtest/gtest.h>

#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "engine/worker/engine_executor.hpp"
#include "tests/unit/engine/tiny_engine.hpp"

namespace millrace::worker {
namespace {

using engine::TinyEngine;

class LongPrompt : public TinyEngine {
 protected:
  // Returns the ends of the next `count` tasks.
  std::vector<Ended> wait_for_ends(EngineExecutor& executor, std::size_t count) {
    std::vector<Ended> all;
    std::unique_lock lock(mutex_);
    while (true) {
      for (Ended& ended : executor.take_ends()) all.push_back(std::move(ended));
      if (all.size() >= count) return all;
      woken_.wait(lock, [&] { return wakes_ > 0; });
      wakes_ = 0;
    }
  }
  // Waits until the executor has made more steps than `steps`.
  void wait_for_steps(EngineExecutor& executor, std::uint64_t steps) {
    while (executor.progress().steps <= steps) std::this_thread::yield();
  }

  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
};

TEST_F(LongPrompt, IsRefusedWhileAnotherJobsStepsGoOn) {
  // The running job cannot end by itself before the test does.
  model_.context = 1 << 17;
  engine::EngineOptions options = engine::tiny_options();
  options.kv_memory_bytes = 64 * limits::MiB;
  EngineExecutor executor(millrace::testing::must(create(engine::tiny_vocabulary, "", options)), 4,
                          TestHooks::from_environment(), 600'000);
  executor.on_change([this] {
    const std::lock_guard lock(mutex_);
    ++wakes_;
    woken_.notify_all();
  });
  Task running;
  running.lease = 1;
  running.request.prompt = "x";
  running.request.sampling.temperature = 0.0f;
  running.request.stops.ignore_eos = true;
  running.request.max_tokens = model_.context - 10;
  executor.add(running);
  wait_for_steps(executor, 1);
  for (LeaseId lease = 2; lease < 5; ++lease) {
    Task huge = running;
    huge.lease = lease;
    // NOLINTNEXTLINE(bugprone-string-constructor): 120 MB is what is tested
    huge.request.prompt = std::string(120'000'000, 'a');
    executor.add(std::move(huge));
    const auto ends = wait_for_ends(executor, 1);
    ASSERT_EQ(ends.size(), 1u);
    EXPECT_EQ(ends[0].lease, lease) << "the running job has ended";
    ASSERT_TRUE(ends[0].error);
    EXPECT_EQ(ends[0].error->code, Code::context_exceeded);
    EXPECT_TRUE(ends[0].error->message.starts_with("the prompt has 120000000 bytes;"))
        << ends[0].error->text();
    wait_for_steps(executor, executor.progress().steps);
  }
  executor.cancel(1);
  const auto last = wait_for_ends(executor, 1);
  ASSERT_EQ(last.size(), 1u);
  EXPECT_TRUE(last[0].cancelled);
}

}  // namespace
}  // namespace millrace::worker
