#pragma once
// Lists the devices and finds the one that a user names; internal to this folder.
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
// `option` is DeviceOptions::device. Errors: no_device.
Result<FoundDevice> choose_device(const std::vector<FoundDevice>& found, std::string_view option);
// As chosen_devices, among those found.
Result<std::vector<FoundDevice>> choose_devices(const std::vector<FoundDevice>& found,
                                                std::string_view option, std::string_view list,
                                                std::string_view name = "--devices");

}  // namespace millrace::engine
