#include "engine/core/device/context.hpp"

namespace millrace::engine {

Result<OwnedContext> context_for(cl_device_id device, const std::string& name, cl_context given) {
  if (given != nullptr) {
    MILLRACE_TRY(check_opencl(clRetainContext(given), "clRetainContext", name));
    return OwnedContext(given);
  }
  cl_int error = CL_SUCCESS;
  OwnedContext made(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &error));
  MILLRACE_TRY(check_opencl(error, "clCreateContext", name));
  return made;
}

}  // namespace millrace::engine
