#pragma once
// Times the kernels that run along rows, each alone, on shapes of SmolLM2-135M: norm, quantization,
// SiLU, storing of keys and values, embedding, sampling. Each has two limits from the same run:
//
//   move_us        the time of a bare copy that reads and writes as many bytes in as many groups
//   operations_us  the time of the vector operations in its source, at the measured rate of fp32
//                  multiply-adds
//
// A kernel's limit is the larger of the two. Times are those of the device's events, which exclude
// the cost of a launch, because inside of whole layers these kernels have no launch of their own.
// Each time is the best of several windows. Thread safety: the device's owner thread.
#include <string>
#include <vector>

#include "bench/kernel/peak.hpp"
#include "engine/core/device/device.hpp"

namespace millrace::engine {

struct PassTime {
  std::string kernel;
  double us = 0, bytes = 0, move_us = 0, operations_us = 0;
};

// Ends the program if something fails. `device` must have been opened with `profile`.
std::vector<PassTime> measure_passes(Device& device, const Peak& peak);

}  // namespace millrace::engine
