// Tests attention over packed keys and values, in fp32 and in integers, with codes that the step
// itself encodes. Both families, and the cpu family with every kind of dot product, are compared
// with float64 over the same codes, and bit for bit with each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tests/unit/kernels/attention_fixture.hpp"
#include "tests/unit/kernels/integer_attention.hpp"

namespace millrace::engine {
namespace {

struct Case {
  const char* policy;
  std::uint32_t head_dim, heads, kv_heads;
  bool centered = false;
};

Shape shape_of(const Case& c) {
  Shape shape{.head_dim = c.head_dim, .heads = c.heads, .kv_heads = c.kv_heads};
  shape.codecs = must(parse_kv_policy(c.policy)).codecs;
  shape.codecs.centered = c.centered;
  return shape;
}

class PackedAttentionTest : public ::testing::TestWithParam<Case> {};

const std::vector<std::vector<Sequence>> steps{
    {{1, 1}, {5, 5}, {31, 1}, {32, 1}, {33, 3}},
    {{17, 17}, {257, 9}, {256, 1}, {255, 2}, {40, 40}},
    {{530, 20}, {769, 1}, {270, 30}, {513, 1}},
};

void expect_families_agree(const Shape& shape, MathMode math, const auto& expect) {
  std::optional<Runner> generic, cpu;
  generic.emplace("generic", shape, KernelVariant{}, math);
  if (testing::has_cpu_family()) cpu.emplace("cpu", shape, KernelVariant{}, math);
  std::uint64_t seed = 1;
  for (const auto& sequences : steps) {
    const Problem problem = random_problem(shape, sequences, seed++);
    const Results reference = generic->run(problem);
    ASSERT_NO_FATAL_FAILURE(expect(problem, reference)) << "step " << seed - 1;
    if (!cpu) continue;
    const Results got = cpu->run(problem);
    ASSERT_EQ(got.pages, reference.pages) << "step " << seed - 1;
    ASSERT_TRUE(got == reference) << "step " << seed - 1;
    ASSERT_TRUE(cpu->run(problem, 100) == reference) << "cut, step " << seed - 1;
    // Only the buffer for partials of cut tiles is kept from run to run; there is none for decoded
    // channels.
    ASSERT_TRUE(cpu->run(problem) == reference);
    ASSERT_EQ(cpu->allocated(), 0u);
    ASSERT_EQ(generic->allocated(), 0u);
  }
}

TEST_P(PackedAttentionTest, ExactEqualsFloat64InBothFamilies) {
  expect_families_agree(shape_of(GetParam()), MathMode::exact,
                        [](const Problem& p, const Results& got) { expect_close(p, got); });
}

TEST_P(PackedAttentionTest, FastEqualsItsIntegersInBothFamilies) {
  expect_families_agree(shape_of(GetParam()), MathMode::fast, expect_close_in_integers);
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  const Case& c = info.param;
  std::string out = std::string(c.policy) + "_" + std::to_string(c.head_dim) + "x" +
                    std::to_string(c.heads) + "x" + std::to_string(c.kv_heads) +
                    (c.centered ? "_centered" : "");
  std::ranges::replace_if(
      out, [](char x) { return std::isalnum(static_cast<unsigned char>(x)) == 0; }, '_');
  return out;
}

// Every codec of a preset, on keys and on values, with several head sizes and numbers of query
// heads.
const std::vector<Case> slice{{"k5v3", 64, 9, 3},           {"q8", 64, 8, 1},
                              {"k4v3", 64, 3, 1},           {"q4", 64, 4, 2},
                              {"turboquant-3.5", 64, 6, 2}, {"r6/q3g32", 128, 4, 4}};
INSTANTIATE_TEST_SUITE_P(Slice, PackedAttentionTest, ::testing::ValuesIn(slice), name_of);

TEST(PackedAttention, TheShortTestsReadEveryCodecOfAPreset) {
  std::set<std::string> keys, values;
  for (const Case& c : slice) {
    const KvCodecs codecs = must(parse_kv_policy(c.policy)).codecs;
    keys.insert(codec_name(codecs.key));
    values.insert(codec_name(codecs.value));
  }
  for (const KvPreset& preset : kv_presets()) {
    const KvCodecs codecs = must(parse_kv_policy(preset.name)).codecs;
    if (codecs == codecs.unpacked()) continue;  // attention_test.cpp tests plain numbers
    EXPECT_TRUE(keys.contains(codec_name(codecs.key))) << preset.name;
    EXPECT_TRUE(values.contains(codec_name(codecs.value))) << preset.name;
  }
}

// The cases have look-ups of 64 levels, planes of one bit, and several scales per value. With few
// sums at a time, the kernel processes blocks of channels that share words one by one.
TEST(PackedAttention, EveryDotProductAndTileGivesTheSameBits) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  const Dot best = open_device({.variant = "cpu"})->dot();
  const Shape shape = shape_of({"r6/q3g32", 64, 3, 1});
  const Problem problem = random_problem(shape, {{300, 20}, {530, 1}, {17, 17}}, 3);
  const Results want = Runner("generic", shape).run(problem);
  for (const Dot dot : all_dots) {
    if (dot > best || !processor_has(dot)) continue;
    const std::uint32_t sums = dot == best ? 0 : 6;
    Runner cpu("cpu-" + std::string(dot_name(dot)), shape, {.sums = sums});
    ASSERT_TRUE(cpu.run(problem) == want) << dot_name(dot);
  }
}

// Every codec on both sides, with several head sizes and numbers of query heads per KV head.
INSTANTIATE_TEST_SUITE_P(
    DISABLED_Long, PackedAttentionTest,
    ::testing::Values(
        Case{"r5/q3g32", 64, 6, 2, true}, Case{"q8g64/r4", 64, 9, 3}, Case{"r8/q6g64", 64, 3, 3},
        Case{"q5g32/r8", 64, 6, 2}, Case{"q4g64/q2g64", 64, 4, 1}, Case{"q3g64/r2", 64, 8, 1},
        Case{"r2/q5g64", 64, 8, 8}, Case{"r3/r4", 64, 3, 1}, Case{"r4/r6", 64, 16, 4},
        Case{"q2g32/r5", 64, 4, 2}, Case{"q6g128/q8g64", 128, 8, 2}, Case{"r5/r3", 128, 8, 8},
        Case{"q8g32/q4g128", 128, 3, 1}, Case{"r8/r4", 128, 8, 1}, Case{"r4/r3", 256, 4, 1},
        Case{"r5/r3", 512, 8, 1}, Case{"q8g64/q4g128", 512, 4, 2}, Case{"q8g64/q3g128", 256, 3, 1},
        Case{"r6/r5", 256, 8, 8}, Case{"q8g32/q8g32", 96, 8, 2}, Case{"q5g32/q3g32", 96, 6, 2},
        Case{"f16/q4g32", 96, 4, 4}, Case{"f16/r3", 64, 9, 3}, Case{"r5/f16", 64, 9, 3},
        Case{"f32/r3", 64, 9, 3}, Case{"q8g32/f32", 128, 4, 1}, Case{"f16/q8g128", 256, 4, 1},
        Case{"f16/r3", 64, 6, 2, true}, Case{"q8g32/q4g64", 128, 4, 1, true},
        Case{"r4/r3", 256, 4, 1, true}),
    name_of);

}  // namespace
}  // namespace millrace::engine
