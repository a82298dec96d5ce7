#pragma once
// Inside the device runtime only: the C API, and the check that stands around each of its calls.
#include <initializer_list>
#include <string>
#include <string_view>

// 1.2 is asked of every device; shared memory (memory.hpp) is the one thing of 2.0 that is used,
// and only where a device says that it has it.
#define CL_TARGET_OPENCL_VERSION 200
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS
#include <CL/cl.h>

#include "schemas/base/error.hpp"

namespace millrace::engine {

std::string_view opencl_error_name(cl_int error);  // "CL_OUT_OF_RESOURCES"
// `call` is the function's name, `what` what it was for.
Status check_opencl(cl_int error, std::string_view call, std::string_view what);

}  // namespace millrace::engine
