#pragma once
// The kernels that go along rows, each alone, on shapes of SmolLM2-135M: norm, quantization, SiLU,
// storing of keys and values, embedding, sampling. Beside each stand two limits of the same run:
//
//   move_us        what a bare copy takes that reads and writes as many bytes in as many groups
//   operations_us  the vector operations that its source asks for, at the rate at which the device
//                  was measured to do fp32 multiply-adds
//
// A kernel's own limit is the larger of the two. Times are those of the device's events, so that a
// launch's cost, which these kernels do not pay inside of whole layers, is left out; the best of
// several windows. Thread safety: the device's owner thread.
#include <string>
#include <vector>

#include "bench/kernel/peak.hpp"
#include "engine/core/device/device.hpp"

namespace millrace::engine {

struct PassTime {
  std::string kernel;
  double us = 0, bytes = 0, move_us = 0, operations_us = 0;
};

// Ends the program where something fails. `device` must have been opened with `profile`.
std::vector<PassTime> measure_passes(Device& device, const Peak& peak);

}  // namespace millrace::engine
