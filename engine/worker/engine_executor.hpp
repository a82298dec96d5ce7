#pragma once
// The Executor that runs jobs on an Engine, which a thread of its own drives. A pool of other
// threads prepares the jobs' prompts. Thread safety: that of Executor; create and destroy it on one
// thread.
#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/core/engine.hpp"
#include "engine/worker/executor.hpp"
#include "engine/worker/known_beginnings.hpp"
#include "engine/worker/prepare_pool.hpp"
#include "engine/worker/step_watch.hpp"
#include "engine/worker/test_hooks.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::worker {

class EngineExecutor final : public Executor {
 public:
  // `capacity` is that of ExecutorInfo. A step that has not ended after `limit_ms` counts as a lost
  // device.
  EngineExecutor(std::unique_ptr<engine::Engine> engine, std::uint32_t capacity, TestHooks hooks,
                 std::uint32_t limit_ms);
  ~EngineExecutor() override;  // waits for the current step

  const ExecutorInfo& info() const override { return info_; }
  void add(Task task) override;
  void cancel(LeaseId lease) override;
  std::vector<Ended> take_ends() override;
  std::vector<TaskPartial> take_partials() override;
  Progress progress() const override { return {steps_.load(), tokens_.load(), rows_.load()}; }
  ExecutorCounts counts() const override;
  std::vector<LeaseId> waiting() const override;
  std::vector<LeaseId> take_begun() override;
  std::vector<std::uint64_t> prefixes() override;
  std::optional<Error> failure() const override;
  void on_change(std::function<void()> wake) override;

  // Ends the thread after the current step. False: the step did not end in time; then the object
  // must not be destroyed, and the process should exit by _Exit.
  bool stop(std::uint32_t timeout_ms);

 private:
  struct Inbox {
    std::vector<ReadyTask> ready;
    std::vector<LeaseId> cancelled;
  };

  void loop();
  bool next_inbox(Inbox& inbox);  // waits for work; false: stop
  void prepared(ReadyTask ready);
  void take_in(Inbox inbox, std::vector<Ended>& ends);
  void begin(const std::vector<engine::RequestId>& requests);
  void tell_prefixes();
  void fire_hooks();
  void publish(std::vector<engine::Event> events, std::vector<Ended> ends,
               std::vector<engine::PartialEvent> partials);
  void give_up(Error error);
  void count(const engine::Counters& counters);

  void wake();

  ExecutorInfo info_;
  TestHooks hooks_;
  engine::Counters warmed_up_;  // before the first task
  SystemClock clock_;
  std::int64_t limit_us_;
  std::mutex wake_mutex_;
  std::function<void()> wake_;
  std::unique_ptr<engine::Engine> engine_;  // only the executor's thread uses it

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Inbox inbox_;
  std::map<LeaseId, bool> preparing_;  // tasks in the pool, and whether they were cancelled there
  std::set<LeaseId> waiting_;          // in the engine, without a step so far
  std::vector<LeaseId> begun_;
  std::vector<Ended> ends_;
  // Partials that nobody has taken yet, merged into one for each lease and choice.
  std::map<std::pair<LeaseId, std::uint32_t>, Partial> partials_;
  ExecutorCounts counts_;
  std::vector<std::uint64_t> prefixes_;
  bool prefixes_wanted_ = false;  // they were taken, so the next step looks again
  std::optional<Error> failure_;
  bool stopping_ = false, stopped_ = false;

  std::atomic<std::int64_t> step_began_us_{0};  // 0: no step is running
  mutable StepWatch step_watch_;                // under the lock
  std::atomic<std::uint64_t> steps_{0}, tokens_{0};
  std::atomic<std::uint32_t> rows_{0};
  enum class Trap : std::uint8_t { abort, hang };
  std::unordered_map<LeaseId, Trap> traps_;  // jobs that a test hook names; the thread's own
  KnownBeginnings beginnings_;               // the thread's own, too
  std::thread thread_;
  PreparePool pool_;  // last: its threads use the members above
};

}  // namespace millrace::worker
