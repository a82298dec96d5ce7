#pragma once
// Answers every job with a short fixed text. With the engine's whole link to the broker, but
// without a model, it serves to measure and to test everything around an engine. Thread safety: as
// Executor.
#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/worker/executor.hpp"
#include "engine/worker/test_hooks.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::worker {

struct StubOptions {
  std::string model = "stub";
  std::string text = "a stub's answer";
  std::vector<std::string> tool_calls{};  // of each answer, as a model writes them between markers
  std::uint32_t capacity = 256;           // jobs it holds
  std::uint32_t rows = 0;                 // jobs in a step, the others wait; 0: all
  std::uint32_t step_ms = 0;              // duration of a step
  std::uint32_t job_steps = 1;            // steps of a job; each has its piece of the text
};

class StubExecutor final : public Executor {
 public:
  StubExecutor(StubOptions options, TestHooks hooks);
  ~StubExecutor() override;

  const ExecutorInfo& info() const override { return info_; }
  void add(Task task) override;
  void cancel(LeaseId lease) override;
  std::vector<Ended> take_ends() override;
  std::vector<TaskPartial> take_partials() override;
  Progress progress() const override { return {steps_.load(), tokens_.load(), rows_.load()}; }
  ExecutorCounts counts() const override;
  std::vector<LeaseId> waiting() const override;
  std::vector<LeaseId> take_begun() override;
  std::optional<Error> failure() const override { return std::nullopt; }
  void on_change(std::function<void()> wake) override;

 private:
  struct Job {
    Task task;
    std::uint32_t steps_left = 0;
    bool cancelled = false;
    bool begun = false;
    std::int64_t added_us = 0, begun_us = 0;
  };
  void loop();
  std::size_t rows() const;  // of the next step: the first jobs
  void begin(std::unique_lock<std::mutex>& lock);
  void fire_hooks(std::unique_lock<std::mutex>& lock);
  void step();
  Tokens tokens() const;  // of each answer
  void add_partials(const Job& job);
  Ended answer(const Job& job) const;

  StubOptions options_;
  TestHooks hooks_;
  ExecutorInfo info_;
  SystemClock clock_;
  void wake();
  std::mutex wake_mutex_;
  std::function<void()> wake_;
  std::atomic<std::uint64_t> steps_{0}, tokens_{0};
  std::atomic<std::uint32_t> rows_{0};  // of the step that runs
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Job> jobs_;
  std::vector<LeaseId> begun_;
  std::vector<Ended> ends_;
  ExecutorCounts counts_;
  std::map<std::pair<LeaseId, std::uint32_t>, Partial> partials_;  // by lease and choice
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace millrace::worker
