#pragma once
// Builds programs from sources and defines, through the cache; internal to this folder.
#include "engine/core/device/device.hpp"
#include "engine/core/device/opencl.hpp"
#include "engine/core/device/program_cache.hpp"

namespace millrace::engine {

// Errors: kernel_build with the compiler's whole log; internal for a source that is not embedded.
Result<Program> build_program(cl_context context, cl_device_id device, const DeviceInfo& info,
                              const ProgramCache& cache, const ProgramSpec& spec);

}  // namespace millrace::engine
