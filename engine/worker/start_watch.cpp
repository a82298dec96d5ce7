#include "engine/worker/start_watch.hpp"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "engine/worker/hung_device.hpp"
#include "engine/worker/step_watch.hpp"
#include "engine/worker/worker_program.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::worker {

StartWatch::StartWatch(std::string program, std::uint32_t limit_s)
    : thread_([this, name = std::move(program), limit_s] {
        std::unique_lock lock(mutex_);
        const SystemClock clock;
        const std::int64_t began = clock.monotonic_us();
        StepWatch watch;
        do {
          if (changed_.wait_for(lock, std::chrono::seconds(1), [this] { return over_; })) return;
        } while (watch.look(began, clock.monotonic_us()) < limit_s * std::int64_t{1'000'000});
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
