#pragma once
// The numeric fingerprint: equal fingerprints mean equal bits for equal jobs (ARCHITECTURE.md,
// "Determinism"). Thread safety: pure functions; a ModelFileHash belongs to one thread.
#include <stop_token>
#include <string>
#include <thread>

#include "engine/core/device/device.hpp"
#include "engine/core/gguf/file.hpp"
#include "engine/core/model/math_mode.hpp"
#include "schemas/base/hash.hpp"

namespace millrace::engine {

// The version of the order in which the kernels sum. Raise it with any edit that changes a bit of a
// result.
inline constexpr std::uint32_t reduction_layout_version = 4;

// If it is stopped, it returns early with another number.
Hash128 hash_model_file(const GgufFile& file, const std::stop_token& stop = {});
Hash128 hash_kernel_sources();

// Computes hash_model_file() on a thread of its own, because it takes a second for 8 GB: beside the
// loading of weights, which reads the same bytes. The file must outlive it.
class ModelFileHash {
 public:
  explicit ModelFileHash(const GgufFile& file)
      : thread_(
            [this, &file](const std::stop_token& stop) { hash_ = hash_model_file(file, stop); }) {}

  // Waits for it. If that is never called, the destructor stops the thread.
  Hash128 get() {
    if (thread_.joinable()) thread_.join();
    return hash_;
  }

 private:
  Hash128 hash_;
  std::jthread thread_;  // last: it uses the member above
};

// 32 hex digits: a hash of model file, KV policy, math mode, reduction layout, device, driver and
// kernel sources. `model` is hash_model_file's.
std::string numeric_fingerprint(const Hash128& model, const std::string& kv, MathMode math,
                                const DeviceInfo& device);

}  // namespace millrace::engine
