// Programs that are announced are built on other threads and are there when they are asked for.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;

ProgramSpec writes(std::uint32_t number) {
  return {.name = "writes",
          .text = "__kernel void f(__global uint *out) { out[get_group_id(0)] = " +
                  std::to_string(number) + "; }\n"};
}

TEST(AnnouncedPrograms, AreThereWhenTheyAreAskedFor) {
  const auto device = open_device({.build_threads = 4});
  constexpr std::uint32_t count = 12;
  std::vector<Kernel> kernels(count);
  const auto prepare = [&]() -> Status {
    for (std::uint32_t i = 0; i < count; ++i) {
      MILLRACE_ASSIGN(const Program program, device->build(writes(100 + i)));
      MILLRACE_ASSIGN(kernels[i], device->kernel(program, "f"));
    }
    return {};
  };
  must(device->announce(prepare));
  for (const Kernel& kernel : kernels) EXPECT_FALSE(kernel) << "nothing is there yet";
  EXPECT_EQ(device->program_times().compiled + device->program_times().cached, 0u);
  must(prepare());
  must(device->announce(prepare));  // costs nothing the second time
  must(prepare());
  EXPECT_EQ(device->program_times().compiled + device->program_times().cached, 2 * count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Buffer out = must(device->allocate_zeroed(4, "out"));
    must(device->launch(kernels[i], {}, {out}));
    EXPECT_EQ(download<std::uint32_t>(*device, out, 1)[0], 100 + i);
  }
}

TEST(AnnouncedPrograms, FailWhereTheyAreAskedFor) {
  const auto device = open_device({.build_threads = 3});
  const ProgramSpec broken{.name = "broken", .text = "__kernel void f() { nonsense }"};
  must(device->announce([&]() -> Status {
    for (std::uint32_t i = 0; i < 5; ++i) MILLRACE_TRY(device->build(writes(200 + i)));
    MILLRACE_TRY(device->build(broken));
    return {};
  }));
  for (int i = 0; i < 2; ++i) {
    const auto program = device->build(broken);
    ASSERT_FALSE(program.has_value());
    EXPECT_EQ(program.error().code, Code::kernel_build);
    EXPECT_NE(program.error().message.find("nonsense"), std::string::npos);
  }
  must(device->build(writes(7)));  // one that was not announced
  // The others are never asked for; the device closes all the same.
}

TEST(AnnouncedPrograms, ThatCannotBeJoinedFailAtOnce) {
  const auto device = open_device({.build_threads = 2});
  const auto done = device->announce([&]() -> Status {
    MILLRACE_TRY(device->build({.name = "missing", .sources = {"no/such_file.cl"}}));
    return {};
  });
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, Code::internal);
  must(device->build(writes(8)));
}

TEST(AnnouncedPrograms, AreNoneWhereOneThreadBuilds) {
  const auto device = open_device({.build_threads = 1});
  must(device->announce([&]() -> Status {
    ADD_FAILURE() << "nothing should be prepared";
    return {};
  }));
}

}  // namespace
}  // namespace millrace::engine
