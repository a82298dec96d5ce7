// This test needs a process of its own, because the loader looks for drivers only once.
#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/core/device/device.hpp"

namespace millrace::engine {
namespace {

TEST(NoDevice, SaysHowToGetOne) {
  setenv("OCL_ICD_VENDORS", "/nonexistent-folder-of-icd-files", 1);
  setenv("OCL_ICD_FILENAMES", "", 1);
  setenv("POCL_CACHE_DIR", "", 1);
  setenv("XDG_CACHE_HOME", "/dev/null/no-folder", 1);
  const auto listed = list_devices();
  ASSERT_TRUE(listed.has_value()) << listed.error().text();
  EXPECT_TRUE(listed->empty());
  const auto device = Device::open({});
  ASSERT_FALSE(device.has_value());
  EXPECT_EQ(device.error().code, Code::no_device);
  for (const char* part : {"pocl-opencl-icd", "vendor's driver", "OCL_ICD_VENDORS",
                           "/dev/null/no-folder/pocl/kcache cannot be created"}) {
    EXPECT_NE(device.error().hint.find(part), std::string::npos) << device.error().text();
  }
}

}  // namespace
}  // namespace millrace::engine
