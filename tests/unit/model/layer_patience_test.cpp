// A group of kernels/layer/cpu.cl that has no patience ends as soon as it has to wait, and the
// launch is done by those that remain.
#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "engine/core/device/device.hpp"
#include "kernels/layer/table.h"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using millrace::testing::download;
using millrace::testing::must;

// The group that gets the one chunk waits for another to end, for a few seconds at most, and says
// how many have ended.
constexpr const char* waits_for_the_end_of_another = R"(
static inline bool mr_layer(const LayerStep* s, uint* patience, __global const ulong* at,
                            volatile __global uint* sync) {
  MR_PHASE(0, 1, {
    for (uint turns = 0; *s->ended == 0 && turns < 100000000u; ++turns) MR_PAUSE();
    s->hidden[0] = (float)*s->ended;
  })
  return true;
}
)";

// Launches two groups with that patience and returns what the one that stayed has seen.
float groups_that_ended(Device& device, Kernel& layers, const Buffer& some, const Buffer& phases,
                        std::uint32_t patience) {
  must(device.fill_zero(some, 0, some.size_bytes()));
  must(device.launch(layers, {.groups = {2}},
                     {some, 0u,   1u,   some, some,   some, some,     some, some, some, some, some,
                      some, some, some, some, phases, 0u,   0u,       0u,   0u,   0u,   0u,   0u,
                      0u,   0u,   0u,   1u,   1u,     1u,   patience, 1.0f, 1.0f, 1.0f}));
  return download<float>(device, some, 1)[0];
}

TEST(LayerPatience, AGroupWithoutItEndsAndTheOtherDoesTheRest) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  const auto device = testing::open_device({.variant = "cpu"});
  if (device->info().compute_units < 2) GTEST_SKIP() << "this machine has one core";
  const Program program = must(device->build({.name = "layer_patience",
                                              .sources = {"layer/cpu.cl"},
                                              .text = waits_for_the_end_of_another}));
  Kernel layers = must(device->kernel(program, "layers"));
  const Buffer some = must(device->allocate_zeroed(1 << 20, "test data"));
  const Buffer phases =
      must(device->allocate_zeroed((PHASES_LAYERS + PHASE_COUNTERS) * 4, "test data"));
  EXPECT_EQ(groups_that_ended(*device, layers, some, phases, 0), 1.0f);
  EXPECT_EQ(download<std::uint32_t>(*device, phases, PHASES_LAYERS + PHASE_COUNTERS),
            std::vector<std::uint32_t>(PHASES_LAYERS + PHASE_COUNTERS, 0));
  // With more patience than the other waits for it, none ends.
  EXPECT_EQ(groups_that_ended(*device, layers, some, phases, 4'000'000'000u), 0.0f);
}

}  // namespace
}  // namespace millrace::engine
