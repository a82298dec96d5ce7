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

// How fast the device reads memory at this moment. It keeps its memory, so that it can be asked
// again and again: on rented machines the answer changes by the minute. Errors: those of Device.
// Thread safety: the device's owner thread.
class ReadProbe {
 public:
  static Result<ReadProbe> create(Device& device);
  // The best of eight reads of half a gibibyte, in GB/s; takes about a tenth of a second.
  Result<double> measure();

 private:
  ReadProbe() = default;

  Device* device_ = nullptr;
  Kernel kernel_;
  Buffer in_, out_;
  std::uint32_t groups_ = 0;
};

}  // namespace millrace::engine
