#pragma once
// Inside the device runtime only: where buffers come from. On CPU devices that share memory with
// the host they have addresses, which hold as long as they live, and lie in pages of 2 MB where the
// system has them (Linux: transparent huge pages on request).
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "engine/core/device/handles.hpp"
#include "engine/core/device/opencl.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Whether buffers of the device may have addresses: CL_DEVICE_SVM_FINE_GRAIN_BUFFER, OpenCL 2.0.
bool shares_memory(cl_device_id device);

// Tells the driver that the kernel reads and writes these by their addresses.
Status name_addresses(const Kernel& kernel, std::span<const Buffer* const> buffers);

// Not thread safe. The context must outlive it; its buffers may live longer.
class Memory {
 public:
  Memory() = default;
  // Buffers with addresses where `shared`.
  Memory(cl_context context, bool shared) : context_(context), shared_(shared) {}

  bool has_addresses() const { return shared_; }
  // Content is undefined. Errors: out_of_memory, device_error.
  Result<Buffer> allocate(std::uint64_t bytes, std::string_view what);

 private:
  class Slab;
  Result<Buffer> allocate_shared(std::uint64_t bytes, std::string_view what);

  cl_context context_ = nullptr;
  bool shared_ = false;
  std::shared_ptr<Slab> slab_;  // from which small buffers are cut
};

}  // namespace millrace::engine
