#pragma once
// An OpenCL context of one device; internal to this folder. Thread safety: plain values.
#include <memory>
#include <string>

#include "engine/core/device/opencl.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct ReleaseContext {
  void operator()(cl_context context) const { clReleaseContext(context); }
};
using OwnedContext = std::unique_ptr<_cl_context, ReleaseContext>;

// Creates a context, or retains the given one. `name` is the device's, for errors. Errors:
// device_error, out_of_memory.
Result<OwnedContext> context_for(cl_device_id device, const std::string& name, cl_context given);

}  // namespace millrace::engine
