#pragma once
// The kernels that a device runs: their family, and on CPUs the instructions of integer dot
// products. Errors: invalid_value. Thread safety: pure functions.
#include <string>

#include "engine/core/device/device.hpp"
#include "engine/core/device/dot.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct Variant {
  Family family = Family::generic;
  Dot dot = Dot::plain;
};

// `name` is DeviceOptions::variant.
Result<Variant> variant_for(const DeviceInfo& info, const std::string& name);

}  // namespace millrace::engine
