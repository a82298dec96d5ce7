#include "engine/worker/prepare_pool.hpp"

#include <algorithm>
#include <utility>

namespace millrace::worker {

PreparePool::PreparePool(const engine::Engine& engine, std::size_t threads, Done done)
    : engine_(engine), done_(std::move(done)) {
  for (std::size_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

PreparePool::~PreparePool() {
  const std::lock_guard lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
}

// A quarter of the cores, so that a CPU device keeps the others; two at least, so that one long
// prompt does not hold up the next.
std::size_t PreparePool::default_threads() {
  return std::clamp<std::size_t>(std::thread::hardware_concurrency() / 4, 2, 8);
}

void PreparePool::add(Task task) {
  const std::lock_guard lock(mutex_);
  waiting_.push_back(std::move(task));
  changed_.notify_one();
}

void PreparePool::work() {
  for (;;) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !waiting_.empty(); });
      if (stopping_) return;
      task = std::move(waiting_.front());
      waiting_.pop_front();
    }
    auto request = engine_.prepare(task.request);
    done_({std::move(task), std::move(request)});
  }
}

}  // namespace millrace::worker
