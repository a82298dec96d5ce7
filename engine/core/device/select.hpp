#pragma once
// Inside the device runtime only: which devices there are, and which one a user means.
#include <string_view>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/device/opencl.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct FoundDevice {
  cl_platform_id platform = nullptr;
  cl_device_id device = nullptr;
  DeviceInfo info;
};

Result<std::vector<FoundDevice>> find_devices();
// `wanted` as in DeviceOptions::device, the environment already looked at. Errors: no_device.
Result<FoundDevice> choose_device(const std::vector<FoundDevice>& found, std::string_view wanted);

}  // namespace millrace::engine
