// Tests attention of the nvidia family that does the work of its neighbours in its own launch, as
// far as plain halves allow: it rotates queries and stores keys and values
// (kernels/attention/own_token.cl) where each sequence has one token, and makes bytes of its
// outputs (kernels/attention/byte_outputs.cl). The bits are those of launches of their own.
#include <gtest/gtest.h>

#include "tests/unit/kernels/attention_chunks.hpp"
#include "tests/unit/kernels/attention_fixture.hpp"

namespace millrace::engine {
namespace {

constexpr double largest_error = 2e-3;  // as in matrix_attention_test.cpp

Shape shape_of(std::uint32_t head_dim, std::uint32_t heads, std::uint32_t kv_heads,
               std::uint32_t rope_dim, RopeKind rope) {
  Shape out{.head_dim = head_dim, .heads = heads, .kv_heads = kv_heads};
  out.rope_dim = rope_dim;
  out.rope = rope;
  return out;
}

// Ends at the ends of pages, blocks, the blocks that a ring begins with, and segments.
std::vector<Sequence> ends(std::uint32_t tokens) {
  std::vector<Sequence> out;
  for (const std::uint32_t length : {2u, 16u, 17u, 33u, 97u, 129u, 130u, 192u, 256u, 258u, 770u}) {
    out.push_back({length, tokens});
  }
  return out;
}

class JoinedAttention : public ::testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, JoinedAttention,
                         ::testing::Values(shape_of(128, 8, 2, 128, RopeKind::pairs),
                                           shape_of(64, 6, 3, 32, RopeKind::halves),
                                           shape_of(80, 4, 4, 80, RopeKind::halves)),
                         [](const auto& one) {
                           return std::to_string(one.param.head_dim) + "x" +
                                  std::to_string(one.param.heads);
                         });

TEST_P(JoinedAttention, OfOneTokenEachIsOneLaunchAndCloseToFloat64) {
  Runner runner("nvidia", GetParam());
  const Problem problem = random_problem(GetParam(), ends(1), 3);
  const Results got = runner.run(problem);
  EXPECT_EQ(runner.launches(), 1u);
  EXPECT_LT(worst_error(problem, got), largest_error);
  EXPECT_TRUE(runner.run(problem) == got) << "again";
}

// Rows of two tokens are rotated and stored by a launch of their own, those of one are not.
TEST_P(JoinedAttention, HasTheBitsOfLaunchesOfTheirOwn) {
  Runner runner("nvidia", GetParam());
  const Problem problem = random_problem(GetParam(), ends(2), 4);
  const Results want = runner.run(problem);
  EXPECT_EQ(runner.launches(), 2u);
  ASSERT_NO_FATAL_FAILURE(expect_same_in_chunks(runner, problem, want, 1));
  EXPECT_EQ(runner.launches(), 1u);
}

TEST_P(JoinedAttention, OfLayersThatLackHalvesStoresApart) {
  Shape shape = GetParam();
  shape.codecs = must(parse_kv_policy("q8")).codecs;
  if (shape.head_dim % 32 != 0) GTEST_SKIP() << "no whole groups of channels";
  Runner runner("nvidia", shape);
  runner.run(random_problem(shape, ends(1), 5));
  EXPECT_EQ(runner.launches(), 2u);
}

// Bytes of tiles of few tokens, cut or not, are those that a launch of their own makes of halves.
// With tiles of many tokens attention leaves them to that.
class JoinedBytes : public ::testing::TestWithParam<Shape> {};

INSTANTIATE_TEST_SUITE_P(Shapes, JoinedBytes,
                         ::testing::Values(shape_of(32, 8, 2, 32, RopeKind::pairs),
                                           shape_of(64, 9, 3, 64, RopeKind::halves)),
                         [](const auto& one) { return std::to_string(one.param.head_dim); });

TEST_P(JoinedBytes, AreThoseOfALaunchOfTheirOwn) {
  for (const std::uint32_t compute_units : {1u, 1000u}) {
    Runner runner("nvidia", GetParam(), {}, MathMode::int8, compute_units);
    Runner other("nvidia", GetParam(), {}, MathMode::int8, compute_units);
    other.make_bytes_apart();
    for (const auto& sequences :
         {ends(1), std::vector<Sequence>{{830, 3}, {1300, 1}, {300, 1}, {17, 2}, {556, 4}},
          std::vector<Sequence>{{100, 90}, {300, 1}}}) {
      const Problem problem = random_problem(GetParam(), sequences, 6);
      const Results joined = runner.run(problem, 0, {.codes = true, .bytes = true});
      ASSERT_EQ(runner.made().bytes, std::ranges::all_of(sequences, [](const Sequence& one) {
                  return one.tokens <= 4;  // which a warp takes
                }));
      ASSERT_TRUE(runner.run(problem, 0, {.codes = true, .bytes = true}) == joined) << "again";
      EXPECT_TRUE(other.run(problem, 0, {.codes = true, .bytes = true}) == joined);
      EXPECT_FALSE(other.made().bytes);
      EXPECT_NE(std::ranges::count(joined.bytes, 0u), std::ssize(joined.bytes));
    }
  }
}

}  // namespace
}  // namespace millrace::engine
