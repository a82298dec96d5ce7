#include "engine/worker/engine_executor.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <functional>
#include <map>
#include <set>

#include "engine/core/request/prepare.hpp"

namespace millrace::worker {
namespace {

// An engine whose requests take two steps each. The test can hold its steps.
class FakeEngine final : public engine::Engine {
 public:
  struct Shared {  // shared with the test
    std::mutex mutex;
    std::condition_variable changed;
    bool hold = false;  // steps do not end
    bool in_step = false;
    bool fail_step = false;
    bool hold_prompts = false;  // those that begin with "slow" do not become ready
    int preparing = 0;
    std::uint64_t steps = 0;
    std::vector<engine::RequestId> added, cancelled;
    std::vector<std::uint32_t> priorities;
    std::vector<engine::PartialEvent> partials;  // of the next step
    std::set<TokenId> held;                      // beginnings, each one token long

    void release() {
      const std::lock_guard lock(mutex);
      hold = hold_prompts = false;
      changed.notify_all();
    }
    void wait_for(const std::function<bool()>& holds) {
      std::unique_lock lock(mutex);
      changed.wait(lock, holds);
    }
    void wait_for_step() {
      std::unique_lock lock(mutex);
      changed.wait(lock, [&] { return in_step; });
    }
  };

  explicit FakeEngine(Shared& shared) : shared_(shared) {
    info_.profile.facts = {"a-model.Q4_1", "f00d", "exact", "k5v3", "r5/r3 x2", 272, 3.75, 64};
    info_.profile.label = "A Model";
    info_.profile.kv_policies = {"k5v3", "r5/r3 x2", "r5/r3+none"};
  }
  const engine::EngineInfo& info() const override { return info_; }
  engine::Counters counters() const override { return counters_; }
  Result<engine::Prepared> prepare(const GenerationRequest& request) const override {
    const auto& prompt = std::get<std::string>(request.prompt);
    if (prompt.empty()) return fail(Code::empty_prompt, "no token", "send some text");
    auto prepared = std::make_shared<engine::PreparedRequest>();
    prepared->prompt.assign(prompt.begin(), prompt.end());
    if (!prompt.starts_with("slow")) return prepared;
    std::unique_lock lock(shared_.mutex);
    ++shared_.preparing;
    shared_.changed.notify_all();
    shared_.changed.wait(lock, [&] { return !shared_.hold_prompts; });
    --shared_.preparing;
    if (prompt == "slow and long") return fail(Code::context_exceeded, "too long", "shorten it");
    return prepared;
  }
  Status add(engine::RequestId id, engine::Prepared, std::uint32_t priority) override {
    const std::lock_guard lock(shared_.mutex);
    shared_.added.push_back(id);
    shared_.priorities.push_back(priority);
    left_[id] = 2;
    return {};
  }
  Tokens beginning(const engine::PreparedRequest& request) const override {
    return {request.prompt.front()};
  }
  bool holds(const Tokens& beginning) const override {
    const std::lock_guard lock(shared_.mutex);
    return shared_.held.contains(beginning.front());
  }
  void cancel(engine::RequestId id) override {
    const std::lock_guard lock(shared_.mutex);
    shared_.cancelled.push_back(id);
    cancelled_.insert(id);
  }
  void on_begin(std::function<void(const std::vector<engine::RequestId>&)> tell) override {
    tell_ = std::move(tell);
  }
  Result<std::vector<engine::KernelTime>> profile() override { return {}; }
  std::vector<engine::PartialEvent> take_partials() override {
    const std::lock_guard lock(shared_.mutex);
    return std::exchange(shared_.partials, {});
  }
  bool busy() const override { return !left_.empty(); }
  Status step(std::vector<engine::Event>& events) override {
    std::unique_lock lock(shared_.mutex);
    // It has one row: the first request that is left.
    const engine::RequestId first = left_.begin()->first;
    if (begun_.insert(first).second) tell_({first});
    shared_.in_step = true;
    shared_.changed.notify_all();
    shared_.changed.wait(lock, [&] { return !shared_.hold; });
    shared_.in_step = false;
    if (shared_.fail_step) return lose(events);
    ++counters_.steps;
    shared_.steps = counters_.steps;
    shared_.changed.notify_all();
    counters_.generated_tokens += left_.size();
    for (auto it = left_.begin(); it != left_.end();) {
      const bool cancelled = cancelled_.contains(it->first);
      if (--it->second > 0 && !cancelled) {
        ++it;
        continue;
      }
      engine::Event event;
      event.id = it->first;
      event.cancelled = cancelled;
      events.push_back(event);
      it = left_.erase(it);
    }
    return {};
  }
  Result<Tokens> tokenize(std::string_view, bool, bool) const override { return Tokens{}; }
  Result<std::string> detokenize(const Tokens&) const override { return std::string(); }

 private:
  // Behaves as the real engine: request 7 has just ended, the others end with the device's error.
  Status lose(std::vector<engine::Event>& events) {
    events.emplace_back().id = 7;
    for (const auto& [id, left] : left_) {
      events.emplace_back().id = id;
      events.back().error = Error{Code::device_error, "gone", ""};
    }
    left_.clear();
    return fail(Code::device_error, "gone");
  }

  Shared& shared_;
  engine::EngineInfo info_;
  engine::Counters counters_;
  std::function<void(const std::vector<engine::RequestId>&)> tell_;
  std::set<engine::RequestId> begun_;
  std::map<engine::RequestId, int> left_;
  std::set<engine::RequestId> cancelled_;
};

class EngineExecutorTest : public testing::Test {
 protected:
  void start(std::uint32_t limit_ms = 120'000) {
    executor_ = std::make_unique<EngineExecutor>(std::make_unique<FakeEngine>(shared_), 4,
                                                 TestHooks::from_environment(), limit_ms);
    executor_->on_change([this] {
      const std::lock_guard lock(mutex_);
      ++wakes_;
      woken_.notify_all();
    });
  }
  static Task task(LeaseId lease, const std::string& prompt = "text") {
    Task t;
    t.lease = lease;
    t.request.prompt = prompt;
    return t;
  }
  std::vector<Ended> wait_for_ends(std::size_t count) {
    std::vector<Ended> all;
    std::unique_lock lock(mutex_);
    while (all.size() < count) {
      woken_.wait(lock, [&] { return wakes_ > 0; });
      wakes_ = 0;
      for (Ended& e : executor_->take_ends()) all.push_back(std::move(e));
    }
    return all;
  }

  FakeEngine::Shared shared_;
  std::mutex mutex_;
  std::condition_variable woken_;
  int wakes_ = 0;
  std::unique_ptr<EngineExecutor> executor_;
};

TEST_F(EngineExecutorTest, TellsWhatTheEngineIs) {
  start();
  const EngineProfile& told = executor_->info().engine;
  EXPECT_EQ(told.facts,
            (EngineFacts{"a-model.Q4_1", "f00d", "exact", "k5v3", "r5/r3 x2", 272, 3.75, 64}));
  EXPECT_EQ(told.label, "A Model");
  EXPECT_EQ(told.kv_policies, (std::vector<std::string>{"k5v3", "r5/r3 x2", "r5/r3+none"}));
  EXPECT_EQ(executor_->info().capacity, 4u);
}

TEST_F(EngineExecutorTest, TellsWhatWaitsForItsFirstStep) {
  start();
  shared_.hold = true;
  executor_->add(task(1));
  shared_.wait_for_step();
  EXPECT_EQ(executor_->take_begun(), std::vector<LeaseId>{1}) << "told before the step ends";
  EXPECT_TRUE(executor_->take_begun().empty());
  executor_->add(task(2));
  executor_->add(task(3));
  shared_.release();
  EXPECT_EQ(wait_for_ends(3).size(), 3u);
  EXPECT_TRUE(executor_->waiting().empty());
}

TEST_F(EngineExecutorTest, TellsWhichBeginningsTheEngineHolds) {
  start();
  EXPECT_TRUE(executor_->prefixes().empty());
  const auto run = [&](LeaseId lease, std::uint64_t prefix, const std::string& prompt) {
    Task with = task(lease, prompt);
    with.prefix = prefix;
    executor_->add(std::move(with));
    EXPECT_EQ(wait_for_ends(1).size(), 1u);
    return executor_->prefixes();
  };
  shared_.held = {'a', 'b'};
  (void)run(1, 71, "a long text");
  (void)run(2, 72, "beginnings");
  (void)run(3, 73, "cannot be kept");
  EXPECT_EQ(run(4, 0, "a short text"), (std::vector<std::uint64_t>{72, 71}));
  EXPECT_EQ(run(5, 71, "a long text again"), (std::vector<std::uint64_t>{71, 72}));
  shared_.held = {'c'};
  EXPECT_EQ(run(6, 0, "x"), std::vector<std::uint64_t>{73}) << "pages come and go";
}

TEST_F(EngineExecutorTest, TellsNoMoreBeginningsThanAHeartbeatMayHold) {
  start();
  shared_.held = {'a'};
  const std::uint64_t jobs = limits::prefixes_per_engine + 20;
  for (std::uint64_t i = 1; i <= jobs; ++i) {
    Task with = task(i, "a");
    with.prefix = i;
    executor_->add(std::move(with));
    EXPECT_EQ(wait_for_ends(1).size(), 1u);
  }
  (void)executor_->prefixes();
  executor_->add(task(jobs + 1, "x"));
  EXPECT_EQ(wait_for_ends(1).size(), 1u);
  const auto told = executor_->prefixes();
  ASSERT_EQ(told.size(), std::size_t{limits::prefixes_per_engine});
  EXPECT_EQ(told.front(), jobs) << "those used last";
}

TEST_F(EngineExecutorTest, RunsTasksAndCountsSteps) {
  start();
  executor_->add(task(1));
  EXPECT_EQ(wait_for_ends(1)[0].lease, 1u);
  EXPECT_EQ(executor_->progress().steps, 2u);
  EXPECT_EQ(executor_->progress().tokens, 2u);
}

TEST_F(EngineExecutorTest, APriorityReachesTheEngine) {
  start();
  Task urgent = task(1);
  urgent.priority = 0;
  executor_->add(urgent);
  wait_for_ends(1);
  executor_->add(task(2));
  wait_for_ends(1);
  EXPECT_EQ(shared_.priorities, (std::vector<std::uint32_t>{0, limits::priority_default}));
}

TEST_F(EngineExecutorTest, ARefusedTaskEndsWithItsError) {
  start();
  executor_->add(task(1, ""));
  const auto ends = wait_for_ends(1);
  ASSERT_TRUE(ends[0].error);
  EXPECT_EQ(ends[0].error->code, Code::empty_prompt);
  EXPECT_EQ(executor_->progress().steps, 0u);
}

TEST_F(EngineExecutorTest, TasksAndCancelsReachARunningEngineBetweenItsSteps) {
  shared_.hold = true;
  start();
  executor_->add(task(1));
  shared_.wait_for_step();
  executor_->add(task(2));
  executor_->cancel(1);
  EXPECT_EQ(executor_->progress().steps, 0u);  // the step has not ended
  shared_.release();
  const auto ends = wait_for_ends(2);
  EXPECT_EQ(ends[0].lease, 1u);
  EXPECT_TRUE(ends[0].cancelled);
  EXPECT_EQ(ends[1].lease, 2u);
  EXPECT_FALSE(ends[1].cancelled);
}

// Long prompts are prepared beside the steps, and beside each other.
TEST_F(EngineExecutorTest, StepsGoOnWhilePromptsArePrepared) {
  shared_.hold = shared_.hold_prompts = true;
  start();
  executor_->add(task(1));
  shared_.wait_for_step();
  executor_->add(task(2, "slow and long"));
  executor_->add(task(3, "slow"));
  shared_.wait_for([&] { return shared_.preparing == 2; });
  EXPECT_EQ(executor_->progress().steps, 0u);
  {
    const std::lock_guard lock(shared_.mutex);
    shared_.hold = false;
    shared_.changed.notify_all();
  }
  EXPECT_EQ(wait_for_ends(1)[0].lease, 1u);
  EXPECT_EQ(executor_->progress().steps, 2u) << "both steps ran before a prompt was ready";
  EXPECT_EQ(shared_.preparing, 2);
  shared_.release();
  auto ends = wait_for_ends(2);
  if (ends[0].lease == 3) std::swap(ends[0], ends[1]);
  ASSERT_TRUE(ends[0].error);
  EXPECT_EQ(ends[0].error->code, Code::context_exceeded);
  EXPECT_FALSE(ends[1].error);
  EXPECT_EQ(shared_.added, (std::vector<engine::RequestId>{1, 3}));
}

TEST_F(EngineExecutorTest, ATaskThatIsCancelledWhileItIsPreparedEndsAsCancelled) {
  shared_.hold_prompts = true;
  start();
  executor_->add(task(1, "slow"));
  shared_.wait_for([&] { return shared_.preparing == 1; });
  executor_->cancel(1);
  shared_.release();
  const auto ends = wait_for_ends(1);
  EXPECT_EQ(ends[0].lease, 1u);
  EXPECT_TRUE(ends[0].cancelled);
}

TEST_F(EngineExecutorTest, PartialsThatNobodyTookGrowTogether) {
  start();
  shared_.partials = {{1, {0, 0, {7}, "a", "", {}}},
                      {1, {1, 0, {8}, "x", "", {}}},
                      {1, {0, 1, {9}, "b", "r", {"call"}}}};
  executor_->add(task(1));
  wait_for_ends(1);
  const auto partials = executor_->take_partials();
  ASSERT_EQ(partials.size(), 2u);
  EXPECT_EQ(partials[0].lease, 1u);
  EXPECT_EQ(partials[0].partial, (Partial{0, 0, {7, 9}, "ab", "r", {"call"}}));
  EXPECT_EQ(partials[1].partial, (Partial{1, 0, {8}, "x", "", {}}));
  EXPECT_TRUE(executor_->take_partials().empty());
}

TEST_F(EngineExecutorTest, ALostDeviceIsToldAndEndsNoJob) {
  shared_.fail_step = true;
  start();
  EXPECT_FALSE(executor_->failure());
  executor_->add(task(1));
  while (!executor_->failure()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(executor_->failure()->code, Code::device_error);
  const auto ends = executor_->take_ends();
  ASSERT_EQ(ends.size(), 1u) << "what ended before is kept, the rest stays the broker's";
  EXPECT_EQ(ends[0].lease, 7u);
  EXPECT_TRUE(executor_->stop(10'000));
}

TEST_F(EngineExecutorTest, AStepThatDoesNotEndIsALostDevice) {
  shared_.hold = true;
  start(1);
  EXPECT_FALSE(executor_->failure());
  executor_->add(task(1));
  shared_.wait_for_step();
  while (!executor_->failure()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(executor_->failure()->code, Code::device_error);
  EXPECT_NE(executor_->failure()->hint.find("--step-limit"), std::string::npos);
  EXPECT_FALSE(executor_->stop(1));
  shared_.release();
  EXPECT_TRUE(executor_->stop(10'000));
}

TEST_F(EngineExecutorTest, StopTellsWhetherTheStepEnded) {
  shared_.hold = true;
  start();
  executor_->add(task(1));
  shared_.wait_for_step();
  EXPECT_FALSE(executor_->stop(1));
  shared_.release();
  EXPECT_TRUE(executor_->stop(10'000));
}

TEST(TestHooksDeathTest, AbortsInAStepWithTheJobThatIsNamed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        ::setenv("MILLRACE_TEST_ABORT_ON", "poison", 1);
        FakeEngine::Shared shared;
        EngineExecutor executor(std::make_unique<FakeEngine>(shared), 1,
                                TestHooks::from_environment(), 120'000);
        Task task;
        task.lease = 1;
        task.request.prompt = std::string("a poisoned prompt");
        executor.add(task);
        std::this_thread::sleep_for(std::chrono::seconds(10));
      },
      "");
}

}  // namespace
}  // namespace millrace::worker
