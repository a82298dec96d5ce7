// Tests rotation, the KV write and attention together, as a step runs them: both families, every
// variant of the cpu kernels, tiles of one and of several tokens, in one unit and cut into many.
// All are compared with float64, and bit for bit with each other. Pages are scattered, and lengths
// cross segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "tests/unit/kernels/attention_fixture.hpp"

namespace millrace::engine {
namespace {

class AttentionTest : public ::testing::TestWithParam<Shape> {};
// Shapes whose heads are whole blocks of 32 channels, which attention can write as codes.
class AttentionCodesTest : public AttentionTest {};

// Decoding rows, chunks and whole prompts, at and around the ends of pages and segments.
const std::vector<std::vector<Sequence>> steps{
    {{1, 1}},
    {{5, 5}, {16, 1}, {17, 3}},
    {{255, 2}, {256, 1}, {257, 1}, {40, 40}},
    {{256, 5}, {257, 9}, {16, 16}, {240, 1}},
    {{530, 20}, {769, 1}, {270, 30}, {512, 1}, {513, 1}},
};

TEST_P(AttentionTest, BothFamiliesEqualEachOtherAndFloat64) {
  const Shape shape = GetParam();
  Runner generic("generic", shape);
  std::optional<Runner> cpu;
  if (testing::has_cpu_family()) cpu.emplace("cpu", shape);
  std::uint64_t seed = 1;
  for (const auto& sequences : steps) {
    const Problem problem = random_problem(shape, sequences, seed++);
    const Results reference = generic.run(problem);
    ASSERT_NO_FATAL_FAILURE(expect_close(problem, reference)) << "step " << seed - 1;
    if (cpu) {
      ASSERT_TRUE(cpu->run(problem) == reference) << "step " << seed - 1;
    }
  }
}

TEST_P(AttentionTest, CuttingTilesChangesNoBit) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  const Shape shape = GetParam();
  Runner cpu("cpu", shape);
  const Problem problem =
      random_problem(shape, {{1300, 1}, {700, 1}, {1025, 1}, {1100, 30}, {256, 1}}, 7);
  const Results whole = cpu.run(problem, 1);
  for (const std::uint32_t workers : {2u, 3u, 100u}) {
    ASSERT_TRUE(cpu.run(problem, workers) == whole) << workers;
    ASSERT_TRUE(cpu.run(problem, workers) == whole) << "again, " << workers;
  }
  EXPECT_TRUE(cpu.cut());
}

TEST_P(AttentionCodesTest, EachOutputFormAloneHasTheSameBits) {
  const Shape shape = GetParam();
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  Runner cpu("cpu", shape);
  const Problem problem = random_problem(shape, {{300, 1}, {40, 17}}, 9);
  const Results both = cpu.run(problem);
  const Results rows = cpu.run(problem, 0, {.rows = true, .codes = false});
  const Results codes = cpu.run(problem, 0, {.rows = false, .codes = true});
  EXPECT_EQ(rows.out, both.out);
  EXPECT_EQ(codes.codes, both.codes);
  EXPECT_EQ(std::ranges::count(rows.codes, 0u), std::ssize(rows.codes));
  EXPECT_EQ(std::ranges::count(codes.out, 0.0f), std::ssize(codes.out));
}

constexpr KvCodec f16{}, f32{CodecKind::plain, 32, 0};
constexpr KvCodecs floats{.key = f32, .value = f32};
// Values that are channels of the keys.
constexpr KvCodecs latent_halves{.key = f16, .value = f16, .centered = false, .in_key = true};
constexpr KvCodecs latent_floats{.key = f32, .value = f32, .centered = false, .in_key = true};
constexpr AttentionShape all_kinds{.window = 300, .soft_cap = 2.5f, .sinks = true};

// The variants use fewer registers, or no instruction for halves.
TEST(Attention, EveryVariantOfTheCpuKernelsGivesTheSameBits) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  for (const Shape shape :
       {Shape{64, 9, 3}, Shape{80, 5, 1}, Shape{64, 9, 3, 64, RopeKind::pairs, floats},
        Shape{96, 40, 1, 32, RopeKind::pairs, latent_halves, {}, 64}}) {
    Runner cpu("cpu", shape);
    Runner narrow("cpu", shape, {.sums = 6, .half_by_integers = false});
    Runner middle("cpu", shape, {.sums = 12, .half_by_integers = false});
    std::optional<Runner> integers;  // floats need no conversion
    if (shape.codecs == KvCodecs{}) {
      integers.emplace("cpu", shape, KernelVariant{.sums = 24, .half_by_integers = true});
    }
    std::uint64_t seed = 100;
    for (const auto& sequences : steps) {
      const Problem problem = random_problem(shape, sequences, seed++);
      const Results reference = cpu.run(problem);
      ASSERT_TRUE(narrow.run(problem) == reference) << shape.head_dim << ", step " << seed - 100;
      ASSERT_TRUE(middle.run(problem) == reference) << shape.head_dim << ", step " << seed - 100;
      if (!integers) continue;
      ASSERT_TRUE(integers->run(problem) == reference) << shape.head_dim << ", step " << seed - 100;
    }
  }
}

const std::vector<Shape> shapes{
    {64, 9, 3},
    {64, 2, 2},
    {64, 4, 2, 40, RopeKind::halves},
    {96, 8, 2},
    {80, 5, 1},
    {128, 6, 1},
    {64, 14, 2},
    {256, 8, 1},
    {32, 4, 2, 32, RopeKind::pairs, KvCodecs{.key = {}, .value = {}, .centered = true}},
    {64, 9, 3, 64, RopeKind::pairs, floats},
    {80, 5, 1, 40, RopeKind::halves, KvCodecs{.key = f32, .value = f16, .centered = true}},
    {48, 4, 1, 16, RopeKind::pairs, latent_floats, {}, 32},
    {64, 7, 1, 16, RopeKind::pairs, latent_halves, {}, 48},
    {96, 40, 1, 32, RopeKind::halves, latent_halves, all_kinds, 64},  // more than a set of heads
    {576, 20, 1, 64, RopeKind::pairs, latent_halves, {}, 512},
};

std::vector<Shape> shapes_of_whole_blocks() {
  std::vector<Shape> whole = shapes;
  std::erase_if(whole, [](const Shape& s) { return s.value_dim() % block_columns != 0; });
  return whole;
}

std::string name_of(const ::testing::TestParamInfo<Shape>& shape) {
  const Shape& s = shape.param;
  return std::to_string(s.head_dim) + "x" + std::to_string(s.heads) + "x" +
         std::to_string(s.kv_heads) + (s.codecs.centered ? "c" : "") + "_" +
         codec_name(s.codecs.key) + "_" + (s.latent > 0 ? "key" : codec_name(s.codecs.value));
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest, ::testing::ValuesIn(shapes), name_of);
INSTANTIATE_TEST_SUITE_P(Shapes, AttentionCodesTest, ::testing::ValuesIn(shapes_of_whole_blocks()),
                         name_of);

}  // namespace
}  // namespace millrace::engine
