#pragma once
// Prepares tasks on a few threads of its own, so that a long prompt holds up neither the steps of
// running jobs nor the prompts behind it. A task leaves the pool when it is ready, also before
// tasks that came earlier; the order changes no result (ARCHITECTURE.md, "Determinism"). Thread
// safety: every function may be called from any thread.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/core/engine.hpp"
#include "engine/worker/executor.hpp"

namespace millrace::worker {

// A task whose request was prepared, or refused. The prompt is in `request`, not in the task.
struct ReadyTask {
  Task task;
  Result<engine::Prepared> request;
};

class PreparePool {
 public:
  using Done = std::function<void(ReadyTask)>;

  // Calls `done` on a thread of the pool. The engine and `done` must outlive the pool.
  PreparePool(const engine::Engine& engine, std::size_t threads, Done done);
  // Waits for the tasks under preparation and drops those that wait.
  ~PreparePool();
  PreparePool(const PreparePool&) = delete;
  PreparePool& operator=(const PreparePool&) = delete;

  void add(Task task);
  static std::size_t default_threads();

 private:
  void work();

  const engine::Engine& engine_;
  Done done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> waiting_;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;  // last: they use the members above
};

}  // namespace millrace::worker
