#pragma once
// The measured time of one kernel, see Device::profile and Engine::profile.
#include <cstdint>
#include <string>

namespace millrace::engine {

struct KernelTime {
  std::string kernel;
  std::uint64_t launches = 0, total_ns = 0;
};

}  // namespace millrace::engine
