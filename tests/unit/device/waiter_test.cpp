#include "engine/core/device/waiter.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using testing::must;
using testing::open_device;

// A launch of some milliseconds, whose result shows whether a wait returned before its end.
const ProgramSpec slow{.name = "slow", .sources = {}, .defines = {}, .text = R"(
__kernel void count(__global uint* x, uint rounds) {
  uint value = 1;
  for (uint i = 0; i < rounds; ++i) value = value * 1664525u + 1013904223u;
  x[0] = value;
}
)"};

TEST(Waiter, ReturnsAfterTheEndHoweverLongTheWaitBeforeTook) {
  const auto device = open_device({});
  const Program program = must(device->build(slow));
  Kernel kernel = must(device->kernel(program, "count"));
  const Buffer buffer = must(device->allocate(4, "a number"));
  Waiter waiter(true);
  // After a long wait comes a short one, which the thread must not sleep through, and the other way
  // round.
  for (const std::uint32_t rounds : {8'000'000u, 1u, 8'000'000u, 8'000'000u, 1'000u}) {
    std::uint32_t expected = 1, got = 0;
    for (std::uint32_t i = 0; i < rounds; ++i) expected = expected * 1664525u + 1013904223u;
    ASSERT_TRUE(device->launch(kernel, {.groups = {1}, .local = {1}}, {buffer, rounds}));
    const auto read = std::as_writable_bytes(std::span(&got, 1));
    const DeviceEvent arrived = must(device->enqueue_read(buffer, 0, read));
    ASSERT_TRUE(device->flush());
    ASSERT_TRUE(waiter.wait(arrived));
    EXPECT_EQ(got, expected) << rounds << " rounds";
  }
}

}  // namespace
}  // namespace millrace::engine
