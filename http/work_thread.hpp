#pragma once
// A thread that does one piece of work after the other, at most so many of which wait. Thread
// safety: any thread may call everything; the destructor waits for the piece that is under way, and
// those that wait are never done.
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>

namespace millrace::http {

class WorkThread {
 public:
  explicit WorkThread(std::size_t most_waiting);
  // False: as many wait as may, and this one will not be done. Work must not throw.
  bool add(std::function<void()> work);

 private:
  void run(const std::stop_token& stop);

  const std::size_t most_waiting_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<std::function<void()>> waiting_;
  std::jthread thread_;  // the last member: it ends before the others
};

}  // namespace millrace::http
