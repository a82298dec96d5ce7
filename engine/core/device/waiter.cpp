#include "engine/core/device/waiter.hpp"

#include <thread>

#include "engine/core/device/opencl.hpp"

namespace millrace::engine {

using Clock = std::chrono::steady_clock;

void Waiter::sleep_until_nearly_done(const DeviceEvent& event) const {
  constexpr std::chrono::microseconds look{100};
  const auto end = Clock::now() + last_ * 7 / 8 - 2 * look;
  if (Clock::now() >= end) return;
  cl_command_queue queue = nullptr;  // must be flushed, as clWaitForEvents does
  const cl_int found =
      clGetEventInfo(event.handle(), CL_EVENT_COMMAND_QUEUE, sizeof(cl_command_queue),
                     static_cast<void*>(&queue), nullptr);
  if (found != CL_SUCCESS || queue == nullptr || clFlush(queue) != CL_SUCCESS) return;
  while (Clock::now() < end) {
    cl_int status = CL_COMPLETE;
    const cl_int error = clGetEventInfo(event.handle(), CL_EVENT_COMMAND_EXECUTION_STATUS,
                                        sizeof status, &status, nullptr);
    if (error != CL_SUCCESS || status <= CL_COMPLETE) return;
    std::this_thread::sleep_for(look);
  }
}

Status Waiter::wait(const DeviceEvent& event) {
  const auto start = Clock::now();
  if (sleeps_) sleep_until_nearly_done(event);
  cl_event handle = event.handle();
  Status done = check_opencl(clWaitForEvents(1, &handle), "clWaitForEvents", "a command's end");
  last_ = Clock::now() - start;
  return done;
}

}  // namespace millrace::engine
