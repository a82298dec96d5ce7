#include "engine/worker/start_watch.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/worker/hung_device.hpp"
#include "engine/worker/worker_program.hpp"

namespace millrace::worker {

StartWatch::StartWatch(std::string program, std::uint32_t limit_s)
    : thread_([this, name = std::move(program), limit_s] {
        std::unique_lock lock(mutex_);
        const auto limit = std::chrono::seconds(limit_s);
        if (changed_.wait_for(lock, limit, [this] { return over_; })) return;
        report(name.c_str(), hung_device(limit_s));
        std::fflush(nullptr);
        std::_Exit(device_lost_status);
      }) {}

StartWatch::~StartWatch() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

}  // namespace millrace::worker
