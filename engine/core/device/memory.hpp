#pragma once
// Inside the device runtime only: where buffers come from. On devices that share memory with the
// host, buffer by buffer, they have addresses that hold as long as they live.
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/core/device/handles.hpp"
#include "engine/core/device/opencl.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Whether buffers of the device may have addresses: CL_DEVICE_SVM_FINE_GRAIN_BUFFER, OpenCL 2.0.
bool shares_memory(cl_device_id device);

// Content is undefined; with an address where `shared`. Errors: out_of_memory, device_error.
Result<Buffer> allocate_buffer(cl_context context, std::uint64_t bytes, bool shared,
                               std::string_view what);

// Tells the driver that the kernel reads and writes these by their addresses.
Status name_addresses(const Kernel& kernel, std::span<const Buffer* const> buffers);

}  // namespace millrace::engine
