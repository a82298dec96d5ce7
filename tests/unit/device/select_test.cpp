// The devices that --devices means, among devices that need not be there.
#include "engine/core/device/select.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace millrace::engine {
namespace {

FoundDevice found(std::uint32_t platform, std::uint32_t device, const std::string& name,
                  const std::string& driver = "580.1") {
  FoundDevice out;
  out.info.platform_index = platform;
  out.info.device_index = device;
  out.info.platform = platform == 0 ? "Portable Computing Language" : "NVIDIA CUDA";
  out.info.name = name;
  out.info.driver = driver;
  out.info.type = platform == 0 ? DeviceType::cpu : DeviceType::gpu;
  return out;
}

// A processor, three GPUs of one kind and one of another.
const std::vector<FoundDevice> host = {found(0, 0, "pthread"), found(1, 0, "H100"),
                                       found(1, 1, "A10"), found(1, 2, "H100"),
                                       found(1, 3, "H100")};

std::string chosen(const std::string& option, const std::string& list) {
  const auto devices = choose_devices(host, option, list);
  if (!devices) return std::string(code_name(devices.error().code)) + " " + devices.error().message;
  std::string out;
  for (const FoundDevice& device : *devices) {
    out += std::to_string(device.info.platform_index) + ":" +
           std::to_string(device.info.device_index) + " ";
  }
  return out;
}

TEST(ChooseDevices, AllAreThoseLikeTheOneThatDeviceNames) {
  EXPECT_EQ(chosen("", "all"), "1:0 1:2 1:3 ");
  EXPECT_EQ(chosen("A10", "all"), "1:1 ");
  EXPECT_EQ(chosen("1:3", "all"), "1:0 1:2 1:3 ");
  EXPECT_EQ(chosen("0:0", "all"), "0:0 ");
  EXPECT_NE(chosen("T4", "all").find("no_device"), std::string::npos);
}

// A device keeps its uuid when one before it is lost, and numbers move up.
TEST(ChooseDevices, AUuidNamesADeviceWhereverItStands) {
  std::vector<FoundDevice> devices = host;
  devices[4].info.uuid = "00112233445566778899aabbccddeeff";
  devices.erase(devices.begin() + 1);
  const auto device = choose_device(devices, "00112233445566778899AABBCCDDEEFF");
  ASSERT_TRUE(device) << device.error().text();
  EXPECT_EQ(device->info.device_index, 3u);
  EXPECT_FALSE(choose_device(devices, "10112233445566778899aabbccddeeff"));
}

TEST(ChooseDevices, AListNamesThemInItsOrder) {
  EXPECT_EQ(chosen("", "2,0"), "1:2 1:0 ");
  EXPECT_EQ(chosen("", "1:3,0"), "1:3 1:0 ");
  EXPECT_EQ(chosen("pthread", "0"), "0:0 ");
  for (const char* wrong : {"7", "0,9:0", "H100", "0,,2", ",", "0:0:1", "-1"}) {
    EXPECT_EQ(chosen("", wrong).find("no_device --devices: no OpenCL device is "), 0U)
        << chosen("", wrong);
  }
}

TEST(ChooseDevices, DevicesOfTwoKindsAndOneTwiceAreRefused) {
  EXPECT_EQ(chosen("", "0,1"),
            "usage --devices: 1:0 H100 and 1:1 A10 are not of one kind (platform, name, driver)");
  EXPECT_EQ(chosen("", "0,1:0"), "usage --devices names 1:0 twice");
  const std::vector<FoundDevice> drivers = {found(1, 0, "H100"), found(1, 1, "H100", "581.2")};
  EXPECT_FALSE(choose_devices(drivers, "", "0,1"));
  EXPECT_EQ(choose_devices(drivers, "", "all")->size(), 1U);
}

}  // namespace
}  // namespace millrace::engine
