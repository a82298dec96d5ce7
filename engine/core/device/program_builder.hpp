#pragma once
// Inside the device runtime only: sources and defines to a compiled program, through the cache.
#include "engine/core/device/device.hpp"
#include "engine/core/device/opencl.hpp"
#include "engine/core/device/program_cache.hpp"

namespace millrace::engine {

// Errors: kernel_build with the compiler's whole log; internal for a source that is not embedded.
Result<Program> build_program(cl_context context, cl_device_id device, const DeviceInfo& info,
                              const ProgramCache& cache, const ProgramSpec& spec);

}  // namespace millrace::engine
