#pragma once
// Finds the kernel source of an operation whose launches are the same in all families. Thread
// safety: a pure function.
#include <string>
#include <string_view>

#include "engine/core/device/device.hpp"

namespace millrace::engine {

// The file of a folder of kernels/ for the device's family, such as "sampler/cpu.cl"; generic.cl if
// the family has none of its own.
std::string family_source(const Device& device, std::string_view folder);

}  // namespace millrace::engine
