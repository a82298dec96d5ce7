#pragma once
// The OpenCL C API and the check of each of its calls; internal to this folder.
#include <initializer_list>
#include <string>
#include <string_view>

// Every device must have OpenCL 1.2. Shared memory (memory.hpp) is the only feature of 2.0 in use,
// and only on devices that report it.
#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "schemas/base/error.hpp"

namespace millrace::engine {

std::string_view opencl_error_name(cl_int error);  // "CL_OUT_OF_RESOURCES"
// Turns an OpenCL error into a Status. `call` is the function's name, `what` the purpose of the
// call.
Status check_opencl(cl_int error, std::string_view call, std::string_view what);

}  // namespace millrace::engine
