#pragma once
// Waits for the device without taking a core. NVIDIA's driver waits by asking without a pause. So
// the thread sleeps for most of what the wait before took, looking now and then, and leaves the
// rest, and short waits, to the driver. Thread safety: the device's owner thread.
#include <chrono>

#include "engine/core/device/handles.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

class Waiter {
 public:
  // With `sleeps` false the driver does all the waiting.
  explicit Waiter(bool sleeps = false) : sleeps_(sleeps) {}

  // Returns when the command has ended. Errors: as check_opencl.
  Status wait(const DeviceEvent& event);

 private:
  void sleep_until_nearly_done(const DeviceEvent& event) const;

  bool sleeps_;
  std::chrono::nanoseconds last_{0};  // what the wait before took
};

}  // namespace millrace::engine
