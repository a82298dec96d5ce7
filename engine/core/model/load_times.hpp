#pragma once
// Where the time of a load went, for the log. Thread safety: plain values.
#include <chrono>

#include "engine/core/device/program_times.hpp"
#include "engine/core/model/weight_uploads.hpp"

namespace millrace::engine {

struct LoadTimes {
  std::chrono::steady_clock::time_point start = std::chrono::steady_clock::now();
  double allocating_seconds = 0;  // finding tensors, and memory for them
  UploadTimes weights{};
  // Programs are built while weights are packed, so their seconds are what the load waited for them
  // besides.
  ProgramTimes programs{};

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  void log() const;
};

}  // namespace millrace::engine
