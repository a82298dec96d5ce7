#pragma once
// How many cores this process may really use. Groups of a kernel wait for each other by spinning
// (kernels/layer), so a single thread more than there are cores costs whole time slices.
// Thread safety: usable_cores and quota_cores only read the system's state; call limit_pocl before
// other threads read the environment, which it changes.
#include <cstdint>
#include <optional>
#include <string>

namespace millrace::engine {

// The cores of the affinity mask, but no more than the container's CPU quota allows; at least 1.
std::uint32_t usable_cores();

// The least quota, in cores, of the control groups that hold this process: cpu.max of version 2,
// cpu.cfs_quota_us of version 1. Nothing if there is no quota. `root` is the folder of /proc and
// /sys.
std::optional<double> quota_cores(const std::string& root = "");

// Makes PoCL start that many threads, unless the user has set POCL_MAX_PTHREAD_COUNT. PoCL reads
// that variable once, at the first OpenCL call of a process.
void limit_pocl(std::uint32_t cores);

}  // namespace millrace::engine
