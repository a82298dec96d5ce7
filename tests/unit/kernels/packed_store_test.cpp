// Tests that the nvidia family stores keys and values (kernels/rope/nvidia.cl, half_nvidia.cl) with
// the bits of the generic family.
#include <gtest/gtest.h>

#include "tests/unit/kernels/attention_fixture.hpp"

namespace millrace::engine {
namespace {

// Codecs of both kinds and of plain numbers, on either side, centered and not. Their attention is
// the generic one, so that this takes a moment.
TEST(PackedStore, OfTheNvidiaFamilyHasTheBitsOfTheGenericOne) {
  for (const char* policy : {"r5/r3", "q6g64/q5g32", "r8/q2g64", "f16/r4", "q3g32/f32"}) {
    for (const bool centered : {false, true}) {
      SCOPED_TRACE(std::string(policy) + (centered ? ", centered" : ""));
      Shape shape{.head_dim = 64, .heads = 4, .kv_heads = 2, .rope_dim = 48};
      shape.codecs = must(parse_kv_policy(policy)).codecs;
      shape.codecs.centered = centered;
      Problem problem = random_problem(shape, {{21, 20}, {1, 1}, {50, 3}}, 11);
      // A value that is zeros.
      const std::size_t values = (shape.heads + shape.kv_heads) * shape.head_dim;
      std::fill_n(&problem.qkv[2 * problem.qkv_stride() + values], shape.head_dim, 0.0f);
      const Results want = Runner("generic", shape).run(problem);
      const Results got = Runner("nvidia", shape).run(problem);
      EXPECT_TRUE(got.pages == want.pages);
      EXPECT_EQ(got.out, want.out) << "queries are rotated, too";
    }
  }
}

// Of halves, too: pages that tokens fill, begin, end and continue, and both kinds of rotation.
TEST(HalfStore, OfTheNvidiaFamilyHasTheBitsOfTheGenericOne) {
  for (const RopeKind rope : {RopeKind::pairs, RopeKind::halves}) {
    for (const auto& [head_dim, rope_dim] : {std::pair{64u, 48u}, {64u, 64u}, {16u, 16u}}) {
      SCOPED_TRACE(std::to_string(rope_dim) + (rope == RopeKind::halves ? ", halves" : ", pairs"));
      const Shape shape{
          .head_dim = head_dim, .heads = 6, .kv_heads = 3, .rope_dim = rope_dim, .rope = rope};
      Problem problem = random_problem(shape, {{53, 50}, {1, 1}, {33, 2}, {32, 5}, {7, 1}}, 12);
      problem.qkv[6 * head_dim + 3] = 1e6f;  // beyond the range of halves
      problem.qkv[9 * head_dim + 5] = -1e6f;
      // In math exact, attention is the generic one.
      const Results want = Runner("generic", shape, {}, MathMode::exact).run(problem);
      const Results got = Runner("nvidia", shape, {}, MathMode::exact).run(problem);
      EXPECT_TRUE(got.pages == want.pages);
      EXPECT_EQ(got.out, want.out) << "queries are rotated, too";
    }
  }
}

}  // namespace
}  // namespace millrace::engine
