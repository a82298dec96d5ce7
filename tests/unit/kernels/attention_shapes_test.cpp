// Tests windows, soft caps and sinks with every way to store keys and values, in fp32 and in
// integers. Both families must agree with float64 (the integers with their own definition) within a
// relative error of 1e-3, and with each other bit for bit, for every step and every cut of it. The
// steps cover every kind of attention, plain ones included.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "tests/unit/kernels/attention_chunks.hpp"
#include "tests/unit/kernels/attention_fixture.hpp"
#include "tests/unit/kernels/every_codec.hpp"
#include "tests/unit/kernels/integer_attention.hpp"

namespace millrace::engine {
namespace {

// Windows that end within a page and a segment, and one that is shorter than a page; caps and sinks
// that change scores of a few units strongly.
constexpr AttentionShape plain{};
constexpr AttentionShape window{.window = 100};
constexpr AttentionShape capped{.soft_cap = 3.0f};
constexpr AttentionShape sinks{.sinks = true};
constexpr AttentionShape short_window{.window = 5, .sinks = true};
constexpr AttentionShape all{.window = 300, .soft_cap = 2.5f, .sinks = true};

struct Case {
  std::string policy;
  std::uint32_t head_dim, heads, kv_heads;
  AttentionShape attention{};
  bool centered = false;
};

Shape shape_of(const Case& c) {
  Shape shape{.head_dim = c.head_dim, .heads = c.heads, .kv_heads = c.kv_heads};
  shape.codecs = testing::must(parse_kv_policy(c.policy)).codecs;
  shape.codecs.centered = c.centered;
  shape.attention = c.attention;
  return shape;
}

std::string name_of(const Case& c) {
  std::string out = c.policy + "_" + std::to_string(c.head_dim) + "x" + std::to_string(c.heads) +
                    "x" + std::to_string(c.kv_heads);
  std::ranges::replace_if(
      out, [](char x) { return std::isalnum(static_cast<unsigned char>(x)) == 0; }, '_');
  if (c.attention.window > 0) out += "_window" + std::to_string(c.attention.window);
  if (c.attention.soft_cap > 0) out += "_capped";
  if (c.attention.sinks) out += "_sinks";
  return out + (c.centered ? "_centered" : "");
}

// Every length with rows of 1, 2 and 64 tokens, as far as it has so many.
std::vector<Sequence> every_length() {
  std::vector<Sequence> out;
  for (const std::uint32_t length : {1u, 31u, 32u, 33u, 255u, 256u, 257u, 4095u}) {
    for (const std::uint32_t tokens : {1u, 2u, 64u}) {
      if (tokens <= length) out.push_back({length, tokens});
    }
  }
  return out;
}

class AttentionShapes : public ::testing::TestWithParam<Case> {
 protected:
  static void expect_right(MathMode math, const auto& worst_of) {
    const Shape shape = shape_of(GetParam());
    const Problem problem = random_problem(shape, every_length(), 1);
    const Results reference = Runner("generic", shape, {}, math).run(problem);
    const double worst = worst_of(problem, reference);
    EXPECT_LT(worst, 1e-3);
    std::cout << "relative error " << worst << "\n";
    if (!testing::has_cpu_family()) return;
    Runner cpu("cpu", shape, {}, math);
    ASSERT_TRUE(cpu.run(problem) == reference);
    for (const std::uint32_t workers : {1u, 100u}) {
      ASSERT_TRUE(cpu.run(problem, workers) == reference) << workers;
    }
  }
};

TEST_P(AttentionShapes, ExactIsWithinAThousandthOfFloat64) {
  expect_right(MathMode::exact, worst_error);
}

TEST_P(AttentionShapes, FastIsWithinAThousandthOfItsDefinition) {
  expect_right(MathMode::fast, worst_error_in_integers);
}

INSTANTIATE_TEST_SUITE_P(Slice, AttentionShapes,
                         ::testing::Values(Case{"f16", 64, 3, 1, all},
                                           Case{"f16/f32", 64, 3, 1, all, true},
                                           Case{"r5/q3g32", 64, 4, 1, all, true}),
                         [](const auto& one) { return name_of(one.param); });

// Some rows of a wide tile see a segment of which its other rows see nothing.
TEST(AttentionShapesBits, ChunksTilesAndOtherRowsChangeNoBit) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  const Shape shape = shape_of({"f16", 64, 3, 1, all});
  Runner cpu("cpu", shape);
  const Problem problem =
      random_problem(shape, {{570, 40}, {1300, 1}, {821, 21}, {300, 1}, {17, 17}, {556, 2}}, 5);
  const Results want = cpu.run(problem);
  for (const std::uint32_t chunk : {1u, 7u, 40u}) {
    ASSERT_NO_FATAL_FAILURE(expect_same_in_chunks(cpu, problem, want, chunk));
  }
  Runner narrow("cpu", shape, {.sums = 6, .half_by_integers = false});
  ASSERT_TRUE(narrow.run(problem) == want);
  ASSERT_TRUE(narrow.run(problem, 100) == want);
  EXPECT_TRUE(narrow.cut());
}

// Pages before a window are not read, so they may hold anything.
TEST(AttentionShapesBits, PagesOutOfSightAreNotRead) {
  const Shape shape = shape_of({"f16", 64, 3, 1, all});
  Problem problem = random_problem(shape, {{1300, 20}, {700, 1}}, 6);
  for (const std::string& family : testing::families()) {
    Runner runner(family, shape);
    const Results want = runner.run(problem);
    Problem other = problem;
    testing::Random random(9);
    const std::vector<std::uint8_t> nothing = shape.page().unwritten(1, random);
    for (const PlanRow& row : problem.plan.rows) {
      const std::uint32_t seen = row.first_position + 1 - shape.attention.window;
      for (std::uint32_t i = 0; i < seen / kv_page_tokens; ++i) {
        const std::size_t page = problem.plan.pages[row.page_offset + i];
        std::ranges::copy(nothing, other.pages.begin() + page * nothing.size());
      }
    }
    ASSERT_NE(other.pages, problem.pages);
    EXPECT_EQ(runner.run(other).out, want.out) << family;
  }
}

constexpr AttentionShape shapes[] = {window, all, capped, short_window, plain, sinks};
struct Heads {
  std::uint32_t heads, kv_heads;
};
constexpr Heads head_counts[] = {{2, 2}, {6, 2}, {4, 1}, {8, 1}};  // 1, 3, 4, 8 to a KV head

// Returns every codec and head size, with numbers of query heads and kinds of attention in turns;
// then all numbers with all kinds.
std::vector<Case> some_of_each() {
  std::vector<Case> out;
  std::size_t i = 0;
  for (const auto& [policy, head_dim] : testing::every_codec()) {
    const Heads& h = head_counts[i % std::size(head_counts)];
    out.push_back({policy, head_dim, h.heads, h.kv_heads, shapes[i * 5 / 4 % std::size(shapes)]});
    out.back().centered = i++ % 3 == 2;
  }
  for (const auto& [heads, kv_heads] : head_counts) {
    for (const AttentionShape& shape : shapes) {
      out.push_back({"r5/q3g32", 64, heads, kv_heads, shape});
    }
  }
  return out;
}

// Returns all combinations. PoCL compiles their kernels for hours. To run them on a faster device:
//   kernels_test --gtest_also_run_disabled_tests --gtest_filter='DISABLED_All/*'
std::vector<Case> all_of_them() {
  std::vector<Case> out;
  for (const auto& [policy, head_dim] : testing::every_codec()) {
    for (const auto& [heads, kv_heads] : head_counts) {
      for (const AttentionShape& shape : shapes) {
        out.push_back({policy, head_dim, heads, kv_heads, shape});
      }
    }
  }
  return out;
}

std::string numbered(const ::testing::TestParamInfo<Case>& one) {
  return std::to_string(one.index) + "_" + name_of(one.param);
}

INSTANTIATE_TEST_SUITE_P(DISABLED_Long, AttentionShapes, ::testing::ValuesIn(some_of_each()),
                         numbered);
INSTANTIATE_TEST_SUITE_P(DISABLED_All, AttentionShapes, ::testing::ValuesIn(all_of_them()),
                         numbered);

}  // namespace
}  // namespace millrace::engine
