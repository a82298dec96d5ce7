#pragma once
// Measures the limits of a device through OpenCL, on all its cores, from registers or from memory
// larger than its caches. The figures of kernels are compared with these limits.
#include <string>

#include "engine/core/device/device.hpp"

namespace millrace::engine {

struct Peak {
  double gflops = 0;    // fp32 multiply-adds, two operations each
  double gbytes = 0;    // reads, GB/s
  double dot_gops = 0;  // 8-bit products added into 32 bits, two operations each; 0: unknown
  std::string dot_instruction;  // the fastest that the processor has; "" if none was tried
};

// Takes about three seconds. Errors: those of Device.
Result<Peak> measure_peak(Device& device);

// Measures how fast the device reads memory at this moment. It keeps its buffers, so that it can
// measure repeatedly: on rented machines the speed changes from minute to minute. Errors: those of
// Device. Thread safety: the device's owner thread.
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
