#pragma once
// How many cores this process may really use. Groups of a kernel wait for each other by spinning
// (kernels/layer), so one thread more than there are cores to run them costs whole time slices.
// Thread safety: usable_cores and quota_cores are pure but for what they read; limit_pocl changes
// the environment, before other threads read it.
#include <cstdint>
#include <optional>
#include <string>

namespace millrace::engine {

// Those of the affinity mask, and no more than the container's CPU quota pays for; at least 1.
std::uint32_t usable_cores();

// The least quota, in cores, of the control groups that hold this process: cpu.max of version 2,
// cpu.cfs_quota_us of version 1. Nothing where there is none. `root` is where /proc and /sys are.
std::optional<double> quota_cores(const std::string& root = "");

// Has PoCL start that many threads, unless its user has set POCL_MAX_PTHREAD_COUNT. PoCL looks at
// the first OpenCL call of a process and never again.
void limit_pocl(std::uint32_t cores);

}  // namespace millrace::engine
