// Compares all ways in which NVIDIA GPUs cut the products of experts, bit by bit, and one of them
// with float64.
#include <algorithm>

#include "engine/core/model/backend/nvidia/expert_shapes.hpp"
#include "tests/unit/kernels/experts_runner.hpp"

namespace millrace::engine {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the fixture of this file

// On the matrix unit of NVIDIA GPUs: one expert with many tiles, some with few slots or none, and K
// that is no multiple of a stage.
class ExpertsShapes : public ::testing::TestWithParam<TensorType> {};

TEST_P(ExpertsShapes, AllGiveTheSameBits) {
  ExpertsCase shape{.spec = {.count = 20, .used = 3, .normalized = true}};
  shape.gate_type = shape.up_type = shape.down_type = GetParam();
  const std::uint32_t block = std::max(traits_of(GetParam()).block_elements, 32u);
  shape.width = 3 * block;
  shape.spec.width = block < 64 ? 160 : block;
  shape.biases = shape.lopsided = true;
  const ExpertsLayer layer(shape, 29);
  const ExpertsStep step(shape.width, 67, 30);
  ExpertsRunner chosen(layer, "nvidia", MathMode::fast);
  const ExpertsResult want = chosen.run(step);
  ASSERT_NO_FATAL_FAILURE(expect_rows(layer, step, want, Rounding::halves, {}));
  std::uint32_t number = 0;
  for (const ExpertShape& cut : expert_shapes()) {
    ++number;
    if (cut.wide && !chosen.has_wide()) continue;
    ExpertsRunner forced(layer, "nvidia", MathMode::fast, 0, {.expert_shape = number});
    ASSERT_EQ(forced.run(step).rows, want.rows) << "shape " << number;
    ASSERT_EQ(forced.run(step.part(5, 1)).rows,
              std::vector(want.rows.begin() + 5 * step.stride, want.rows.begin() + 6 * step.stride))
        << "shape " << number;
  }
}

TEST(ExpertShapeChoice, TakesTilesThatHoldMostExpertsAndWhatTheDeviceHas) {
  const auto chosen = [](std::uint64_t choices, std::uint32_t experts) {
    const ExpertShape& shape = expert_shape_for(choices, experts, true);
    return std::pair(shape.wide, shape.columns());
  };
  EXPECT_EQ(chosen(1, 128), std::pair(false, 8u));    // one slot an expert
  EXPECT_EQ(chosen(128, 128), std::pair(false, 8u));  // and again
  EXPECT_EQ(chosen(1024, 128), std::pair(false, 16u));
  for (std::uint64_t choices = 2048; choices < 1u << 22; choices = choices * 9 / 8) {
    const ExpertShape& shape = expert_shape_for(choices, 128, true);
    EXPECT_TRUE(shape.wide) << choices;
    EXPECT_GE(shape.columns(), std::min<std::uint64_t>(choices / 128, 96)) << choices;
    EXPECT_FALSE(expert_shape_for(choices, 128, false).wide) << choices;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ExpertsShapes,
                         ::testing::Values(TensorType::q8_0, TensorType::q4_k, TensorType::mxfp4,
                                           TensorType::bf16),
                         [](const auto& of) { return std::string(traits_of(of.param).name); });

}  // namespace
}  // namespace millrace::engine
