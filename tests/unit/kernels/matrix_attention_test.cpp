// Tests attention of the nvidia family on the matrix unit (kernels/attention/nvidia.cl): it is
// close to float64, and a row has the same bits whatever its tile, its cut, its chunk and its
// company.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "engine/core/model/backend/nvidia/attention_units.hpp"
#include "tests/unit/kernels/attention_chunks.hpp"
#include "tests/unit/kernels/attention_fixture.hpp"
#include "tests/unit/kernels/integer_attention.hpp"

namespace millrace::engine {
namespace {

// Queries and weights have 11 bits; keys and values are halves in the reference, too.
constexpr double largest_error = 2e-3;

constexpr AttentionShape plain{};
constexpr AttentionShape window{.window = 100};
constexpr AttentionShape short_window{.window = 5, .sinks = true};
constexpr AttentionShape all{.window = 300, .soft_cap = 2.5f, .sinks = true};

Shape shape_of(std::uint32_t head_dim, std::uint32_t heads, std::uint32_t kv_heads,
               const AttentionShape& attention) {
  Shape out{.head_dim = head_dim, .heads = heads, .kv_heads = kv_heads};
  out.attention = attention;
  return out;
}

// Rows of one token, of as many as a warp takes, and of more, at the ends of pages, blocks and
// segments.
const std::vector<Sequence> mixed{{1, 1},    {33, 33}, {257, 9}, {256, 2}, {255, 1},
                                  {530, 50}, {769, 1}, {64, 64}, {17, 3},  {48, 1}};

class MatrixAttention : public ::testing::TestWithParam<Shape> {};

TEST_P(MatrixAttention, IsCloseToFloat64) {
  const Problem problem = random_problem(GetParam(), mixed, 1);
  const Results got = Runner("nvidia", GetParam()).run(problem);
  const double worst = worst_error(problem, got);
  EXPECT_LT(worst, largest_error);
  std::cout << "relative error " << worst << "\n";
}

std::string name_of(const ::testing::TestParamInfo<Shape>& shape) {
  const Shape& s = shape.param;
  return std::to_string(s.head_dim) + "x" + std::to_string(s.heads) + "x" +
         std::to_string(s.kv_heads) + "_" + std::to_string(shape.index);
}

INSTANTIATE_TEST_SUITE_P(Shapes, MatrixAttention,
                         ::testing::Values(shape_of(128, 8, 2, plain), shape_of(64, 9, 3, all),
                                           shape_of(80, 3, 3, window), shape_of(32, 4, 2, plain),
                                           shape_of(64, 40, 1, short_window),
                                           shape_of(256, 8, 1, plain)),
                         name_of);

struct PackedCase {
  const char* policy;
  std::uint32_t head_dim, heads, kv_heads;
  AttentionShape attention{};
};

Shape shape_of(const PackedCase& c) {
  Shape out = shape_of(c.head_dim, c.heads, c.kv_heads, c.attention);
  out.codecs = must(parse_kv_policy(c.policy)).codecs;
  return out;
}

class MatrixPackedAttention : public ::testing::TestWithParam<PackedCase> {};

// Their definition is that of integers.
TEST_P(MatrixPackedAttention, IsCloseToItsDefinition) {
  const Shape shape = shape_of(GetParam());
  const Problem problem = random_problem(shape, mixed, 1);
  const Results got = Runner("nvidia", shape).run(problem);
  const double worst = worst_error_in_integers(problem, got);
  EXPECT_LT(worst, largest_error);
  std::cout << "relative error " << worst << "\n";
}

std::string name_of_packed(const ::testing::TestParamInfo<PackedCase>& one) {
  std::string out = std::string(one.param.policy) + "_" + std::to_string(one.param.head_dim);
  std::ranges::replace_if(
      out, [](char x) { return std::isalnum(static_cast<unsigned char>(x)) == 0; }, '_');
  return out;
}

// All pairs of presets that the unit takes, and the other numbers of bits.
INSTANTIATE_TEST_SUITE_P(
    Policies, MatrixPackedAttention,
    ::testing::Values(PackedCase{"q8", 64, 8, 2, all}, PackedCase{"k8v4", 128, 4, 1},
                      PackedCase{"k4v3", 64, 9, 3, all}, PackedCase{"q4", 128, 2, 2, window},
                      PackedCase{"r3/q8g32", 64, 4, 1, short_window},
                      PackedCase{"q3g32/r2", 64, 4, 1}, PackedCase{"r2/q2g32", 64, 4, 2},
                      PackedCase{"r3/r4", 128, 16, 1, all}, PackedCase{"r2/r2", 64, 3, 3, window},
                      PackedCase{"r4/r3", 256, 6, 1}),
    name_of_packed);

TEST(MatrixPackedAttentionBits, ChunksTilesCutsAndOtherRowsChangeNoBit) {
  for (const PackedCase& one :
       {PackedCase{"k4v3", 64, 9, 3, all}, PackedCase{"q8", 64, 8, 2, all}}) {
    const Shape shape = shape_of(one);
    Runner whole("nvidia", shape, {}, MathMode::fast, 1);
    const Problem problem = random_problem(shape, {{630, 90}, {1300, 1}, {17, 17}, {556, 4}}, 5);
    const Results want = whole.run(problem);
    for (const std::uint32_t chunk : {1u, 7u}) {
      ASSERT_NO_FATAL_FAILURE(expect_same_in_chunks(whole, problem, want, chunk));
    }
    Runner cut("nvidia", shape, {}, MathMode::fast, 1000);
    ASSERT_TRUE(cut.run(problem) == want);
    EXPECT_TRUE(cut.cut());
  }
}

// Devices of one unit cut no wide tile, those of many cut all.
TEST(MatrixAttentionBits, ChunksTilesCutsAndOtherRowsChangeNoBit) {
  const Shape shape = shape_of(64, 8, 2, all);
  Runner whole("nvidia", shape, {}, MathMode::fast, 1);
  const Problem problem =
      random_problem(shape, {{830, 90}, {1300, 1}, {821, 21}, {300, 1}, {17, 17}, {556, 4}}, 5);
  const Results want = whole.run(problem);
  EXPECT_LT(worst_error(problem, want), largest_error);
  for (const std::uint32_t chunk : {1u, 4u, 7u, 40u}) {
    ASSERT_NO_FATAL_FAILURE(expect_same_in_chunks(whole, problem, want, chunk));
  }
  Runner cut("nvidia", shape, {}, MathMode::fast, 1000);
  ASSERT_TRUE(cut.run(problem) == want);
  ASSERT_TRUE(cut.run(problem) == want) << "again";
  EXPECT_TRUE(cut.cut());
}

// The values of later tokens in a tile are large, which a row of its own does not see.
TEST(MatrixAttentionBits, WhatARowDoesNotSeeChangesNoBit) {
  const Shape shape = shape_of(64, 4, 1, plain);
  Problem problem = random_problem(shape, {{300, 60}}, 6);
  const std::size_t stride = problem.qkv_stride();
  for (std::size_t token = 30; token < 60; ++token) {
    for (std::size_t i = 4 * 64; i < stride; ++i) problem.qkv[token * stride + i] *= 2e4f;
  }
  Runner runner("nvidia", shape);
  const Results want = runner.run(problem);
  ASSERT_NO_FATAL_FAILURE(expect_same_in_chunks(runner, problem, want, 1));
}

TEST(MatrixAttentionBits, EachOutputFormAloneHasTheSameBits) {
  const Shape shape = shape_of(64, 8, 2, all);
  Runner runner("nvidia", shape);
  const Problem problem = random_problem(shape, {{600, 1}, {40, 17}}, 9);
  const Results both = runner.run(problem);
  const Results rows = runner.run(problem, 0, {.rows = true, .codes = false});
  const Results codes = runner.run(problem, 0, {.rows = false, .codes = true});
  EXPECT_EQ(rows.out, both.out);
  EXPECT_EQ(codes.codes, both.codes);
  EXPECT_EQ(std::ranges::count(rows.codes, 0u), std::ssize(rows.codes));
  EXPECT_EQ(std::ranges::count(codes.out, 0.0f), std::ssize(codes.out));
}

// A query beyond the halves shows in its own outputs, and in no other.
TEST(MatrixAttentionRange, WhatIsTooLargeIsNotHidden) {
  const Shape shape = shape_of(64, 4, 1, plain);
  Problem problem = random_problem(shape, {{40, 8}}, 7);
  problem.qkv[3 * problem.qkv_stride() + 64] = 1e7f;
  const Results got = Runner("nvidia", shape).run(problem);
  for (std::uint32_t token = 0; token < 8; ++token) {
    for (std::uint32_t head = 0; head < 4; ++head) {
      const float first = got.out[token * problem.out_stride() + head * 64];
      EXPECT_EQ(std::isfinite(first), token != 3 || head != 1) << token << ", head " << head;
    }
  }
}

// Weights far below the largest still count: of 4,096 keys with almost the same score, each has
// 1 / 4096 of the sum.
TEST(MatrixAttentionRange, ManySmallWeightsAddUp) {
  const Shape shape = shape_of(64, 4, 1, plain);
  Problem problem = random_problem(shape, {{4096, 1}}, 8);
  for (std::uint32_t i = 0; i < 4 * 64; ++i) problem.qkv[i] *= 1e-3f;
  const Results got = Runner("nvidia", shape).run(problem);
  EXPECT_LT(worst_error(problem, got), largest_error);
}

using Units = std::vector<kernels::MatrixUnit>;

// Checks that the units of each tile have its segments once each, and their own partial results.
void expect_whole(const Units& units, std::uint32_t heads, std::uint32_t window_size,
                  std::set<std::uint32_t>& used) {
  std::map<std::uint32_t, Units> tiles;
  for (const kernels::MatrixUnit& unit : units) tiles[unit.token].push_back(unit);
  for (auto& [token, of] : tiles) {
    std::ranges::sort(of, {}, &kernels::MatrixUnit::first);
    const std::uint32_t position = of[0].position;
    const std::uint32_t seen =
        window_size == 0 || position < window_size ? 0 : position - window_size + 1;
    std::uint32_t next = seen / 256;
    for (const kernels::MatrixUnit& unit : of) {
      EXPECT_EQ(unit.first, next);
      EXPECT_EQ(unit.parts, of.size() == 1 ? 0 : of.size());
      EXPECT_EQ(unit.partial, of[0].partial);
      EXPECT_EQ(unit.counter, of[0].counter);
      next += unit.count;
    }
    EXPECT_EQ(next, (position + of[0].tokens - 1) / 256 + 1);
    if (of.size() == 1) continue;
    for (std::uint32_t i = 0; i < (next - seen / 256) * of[0].tokens * heads; ++i) {
      EXPECT_TRUE(used.insert(of[0].partial + i).second);
    }
  }
}

TEST(MatrixPlanner, UnitsHaveEverySegmentOnce) {
  const std::vector<StepRow> rows{{0, 1, 0}, {1, 1, 1000}, {2, 5, 510}, {7, 100, 700}, {107, 4, 9}};
  for (const std::uint32_t window_size : {0u, 300u}) {
    for (const std::uint32_t warps : {1u, 4u}) {
      for (const std::uint32_t groups : {1u, 1000u}) {
        MatrixPlanner planner;
        const MatrixUnits& units = planner.plan(
            rows, {.warp_tokens = 4, .warps = warps, .heads = 4, .head_sets = 2, .groups = groups},
            window_size);
        std::set<std::uint32_t> used;
        expect_whole(units.narrow, 4, window_size, used);
        expect_whole(units.wide, 4, window_size, used);
        EXPECT_EQ(used.size(), units.partials);
        EXPECT_EQ(units.wide.empty(), warps == 1);
        std::uint32_t tokens = 0;
        std::set<std::uint32_t> seen;
        for (const Units* list : {&units.narrow, &units.wide}) {
          for (const kernels::MatrixUnit& unit : *list) {
            EXPECT_LE(unit.tokens, list == &units.narrow ? 4u : 16u);
            EXPECT_TRUE(list == &units.wide || unit.count == 1);
            if (seen.insert(unit.token).second) tokens += unit.tokens;
          }
        }
        EXPECT_EQ(tokens, 111u);
      }
    }
  }
}

}  // namespace
}  // namespace millrace::engine
