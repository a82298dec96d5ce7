#include "engine/core/device/cores.hpp"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;

std::uint32_t cores_of_mask() {
  // A machine may have more processors than a fixed set holds, so the set grows until the call
  // succeeds.
  for (int size = 1024; size <= 1 << 20; size *= 2) {
    cpu_set_t* const set = CPU_ALLOC(size);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(size);
    const bool told = ::sched_getaffinity(0, bytes, set) == 0;
    const int count = told ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return static_cast<std::uint32_t>(count);
  }
  return std::max(1u, std::thread::hardware_concurrency());
}

// The file holds "max 100000" or "150000 100000".
std::optional<double> quota_of_version_2(const fs::path& group) {
  double quota = 0, period = 0;
  if (!(std::ifstream(group / "cpu.max") >> quota >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

std::optional<double> quota_of_version_1(const fs::path& group) {
  double quota = 0, period = 0;
  if (!(std::ifstream(group / "cpu.cfs_quota_us") >> quota) || quota <= 0) return std::nullopt;
  if (!(std::ifstream(group / "cpu.cfs_period_us") >> period) || period <= 0) return std::nullopt;
  return quota / period;
}

// Lowers `least` to the quotas of a group and of the groups above it. Inside a container the path
// may be the host's; then only the top exists here, and it is the container's own group.
template <class QuotaOf>
void lower_to_quota(const fs::path& top, fs::path group, QuotaOf quota_of,
                    std::optional<double>& least) {
  for (;; group = group.parent_path()) {
    const auto quota = quota_of(top / group.relative_path());
    if (quota) least = std::min(least.value_or(*quota), *quota);
    if (!group.has_relative_path()) return;
  }
}

bool names_cpu(const std::string& controllers) {
  return ("," + controllers + ",").find(",cpu,") != std::string::npos;
}

}  // namespace

std::optional<double> quota_cores(const std::string& root) {
  const fs::path mounts = root + "/sys/fs/cgroup";
  std::optional<double> least;
  // A line is "0::/path" in version 2, "4:cpu,cpuacct:/path" in version 1.
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const fs::path group = line.substr(second + 1);
    if (controllers.empty()) lower_to_quota(mounts, group, quota_of_version_2, least);
    if (!names_cpu(controllers)) continue;
    lower_to_quota(mounts / "cpu", group, quota_of_version_1, least);
    lower_to_quota(mounts / controllers, group, quota_of_version_1, least);
  }
  return least;
}

std::uint32_t usable_cores() {
  const std::uint32_t mask = cores_of_mask();
  const auto quota = quota_cores();
  if (!quota || *quota >= mask) return mask;
  return std::max(1u, static_cast<std::uint32_t>(*quota));
}

void limit_pocl(std::uint32_t cores) {
  ::setenv("POCL_MAX_PTHREAD_COUNT", std::to_string(cores).c_str(), 0);
}

}  // namespace millrace::engine
