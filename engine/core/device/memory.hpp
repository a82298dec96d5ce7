#pragma once
// Allocates buffers; internal to this folder. On CPU devices that share memory with the host,
// buffers have addresses, which stay valid as long as the buffer lives, and lie in pages of 2 MB
// if the system has them (Linux: transparent huge pages on request).
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

// Tells the driver that the kernel accesses these buffers by their addresses.
Status name_addresses(const Kernel& kernel, std::span<const Buffer* const> buffers);

// Not thread safe. The context must outlive it; its buffers may live longer.
class Memory {
 public:
  Memory() = default;
  // `shared`: buffers have addresses.
  Memory(cl_context context, bool shared) : context_(context), shared_(shared) {}

  bool has_addresses() const { return shared_; }
  // Content is undefined. Errors: out_of_memory, device_error.
  Result<Buffer> allocate(std::uint64_t bytes, std::string_view what);

 private:
  class Slab;
  Result<Buffer> allocate_shared(std::uint64_t bytes, std::string_view what);

  cl_context context_ = nullptr;
  bool shared_ = false;
  std::shared_ptr<Slab> slab_;  // small buffers are cut from it
};

}  // namespace millrace::engine
