#pragma once
// What a device can do at most, measured through OpenCL on all its cores, from registers or from
// memory larger than its caches. Every figure of a kernel is read beside these.
#include <string>

#include "engine/core/device/device.hpp"

namespace millrace::engine {

struct Peak {
  double gflops = 0;    // fp32 multiply-adds, two operations each
  double gbytes = 0;    // reads, GB/s
  double dot_gops = 0;  // 8-bit products added into 32 bits, two operations each; 0: not known
  std::string dot_instruction;  // the fastest that the processor has; "" where none was tried
};

// Takes about three seconds. Errors: those of Device.
Result<Peak> measure_peak(Device& device);

}  // namespace millrace::engine
