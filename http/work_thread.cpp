#include "http/work_thread.hpp"

#include <utility>

namespace millrace::http {

WorkThread::WorkThread(std::size_t most_waiting)
    : most_waiting_(most_waiting), thread_([this](const std::stop_token& stop) { run(stop); }) {}

bool WorkThread::add(std::function<void()> work) {
  {
    const std::scoped_lock lock(mutex_);
    if (waiting_.size() >= most_waiting_) return false;
    waiting_.push_back(std::move(work));
  }
  changed_.notify_one();
  return true;
}

void WorkThread::run(const std::stop_token& stop) {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, stop, [&] { return !waiting_.empty(); });
      if (stop.stop_requested()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace millrace::http
