// Rotation, the KV write and attention together, as a step runs them: both families, every variant
// of the cpu kernels, tiles of one and of several tokens, tiles in one unit and cut into many, all
// against float64 and against each other, bit for bit. Pages are scattered, lengths cross segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>

#include "engine/core/gguf/half.hpp"
#include "engine/core/kv/cache_group.hpp"
#include "engine/core/model/operations.hpp"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

struct Shape {
  std::uint32_t head_dim, heads, kv_heads;
  std::uint32_t rope_dim = head_dim;
  RopeKind rope = RopeKind::pairs;
};

// The last `tokens` positions of a sequence of `length`.
struct Sequence {
  std::uint32_t length, tokens;
};

// A step over several sequences, ready to launch.
struct Problem {
  Shape shape;
  std::vector<Sequence> sequences;
  std::vector<float> qkv, rope;      // queries and keys not rotated yet
  std::vector<std::uint16_t> pages;  // halves of the positions before; unwritten places hold NaN
  StepPlan plan;
  std::uint32_t tokens() const { return static_cast<std::uint32_t>(plan.tokens.size()); }
  std::uint32_t qkv_stride() const { return (shape.heads + 2 * shape.kv_heads) * shape.head_dim; }
  std::uint32_t columns() const { return shape.heads * shape.head_dim; }
  std::uint32_t out_stride() const { return input_stride(columns()); }
};

std::size_t at_key(const Shape& s, std::uint32_t page, std::uint32_t head, std::uint32_t slot,
                   std::uint32_t d) {
  const std::size_t side = std::size_t{kv_page_tokens} * s.head_dim;
  return (std::size_t{page} * s.kv_heads + head) * 2 * side + std::size_t{d} * kv_page_tokens +
         slot;
}
std::size_t at_value(const Shape& s, std::uint32_t page, std::uint32_t head, std::uint32_t slot,
                     std::uint32_t d) {
  const std::size_t side = std::size_t{kv_page_tokens} * s.head_dim;
  return (std::size_t{page} * s.kv_heads + head) * 2 * side + side + slot * s.head_dim + d;
}

std::uint16_t finite_half(Random& random) {
  const auto sign = static_cast<std::uint16_t>(random.below(2) << 15);
  if (random.below(32) == 0) return static_cast<std::uint16_t>(sign | random.below(0x400));
  return static_cast<std::uint16_t>(sign | (0x2c00 + random.below(0x1400)));
}

Problem random_problem(const Shape& shape, const std::vector<Sequence>& sequences,
                       std::uint64_t seed) {
  Random random(seed);
  Problem out{
      .shape = shape, .sequences = sequences, .qkv = {}, .rope = {}, .pages = {}, .plan = {}};
  std::uint32_t longest = 0;
  for (const Sequence& s : sequences) {
    const std::uint32_t pages = (s.length + kv_page_tokens - 1) / kv_page_tokens;
    PlanRow row;
    row.first_position = s.length - s.tokens;
    row.count = s.tokens;
    row.token_offset = out.tokens();
    row.page_offset = static_cast<std::uint32_t>(out.plan.pages.size());
    row.page_count = pages;
    out.plan.rows.push_back(row);
    out.plan.tokens.resize(out.plan.tokens.size() + s.tokens);
    out.plan.pages.resize(out.plan.pages.size() + pages);
    longest = std::max(longest, s.length);
  }
  auto& ids = out.plan.pages;
  std::iota(ids.begin(), ids.end(), 1u);  // page 0 belongs to nobody
  for (auto i = static_cast<std::uint32_t>(ids.size()); i > 1; --i) {
    std::swap(ids[i - 1], ids[random.below(i)]);
  }
  out.qkv = random.floats(std::size_t{out.qkv_stride()} * out.tokens(), -2.0f, 2.0f);
  for (std::uint32_t i = 0; i < longest * shape.rope_dim / 2; ++i) {
    const float angle = random.uniform(-3, 3);
    out.rope.insert(out.rope.end(), {std::cos(angle), std::sin(angle)});
  }
  const std::size_t page = std::size_t{2} * kv_page_tokens * shape.head_dim * shape.kv_heads;
  out.pages.assign(page * (ids.size() + 1), 0x7e00);
  for (const PlanRow& row : out.plan.rows) {
    for (std::uint32_t j = 0; j < row.first_position; ++j) {
      const std::uint32_t id = ids[row.page_offset + j / kv_page_tokens];
      for (std::uint32_t g = 0; g < shape.kv_heads; ++g) {
        for (std::uint32_t d = 0; d < shape.head_dim; ++d) {
          out.pages[at_key(shape, id, g, j % kv_page_tokens, d)] = finite_half(random);
          out.pages[at_value(shape, id, g, j % kv_page_tokens, d)] = finite_half(random);
        }
      }
    }
  }
  return out;
}

struct Results {
  std::vector<float> out;            // [tokens][out_stride]
  std::vector<std::uint32_t> codes;  // [tokens][code_stride]
  std::vector<std::uint16_t> pages;
  bool operator==(const Results& other) const {  // zeros of both signs are told apart
    return pages == other.pages && codes == other.codes &&
           std::ranges::equal(out, other.out, {}, std::bit_cast<std::uint32_t, float>,
                              std::bit_cast<std::uint32_t, float>);
  }
};

class Runner {
 public:
  Runner(const std::string& family, const Shape& shape, AttentionVariant variant = {})
      : device_(open_device({.variant = family})),
        operations_(*device_, spec_of(shape), MathMode::fast, variant) {
    Projection qkv;
    qkv.rows = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
    qkv.first = {0, shape.heads * shape.head_dim, (shape.heads + shape.kv_heads) * shape.head_dim};
    must(operations_.prepare_layer(qkv));
    must(operations_.prepare_attention());
  }

  // `workers` decides how tiles are cut; 0 leaves it to the device. A form that is not asked for
  // comes back as zeros; codes there are only of whole blocks.
  Results run(const Problem& problem, std::uint32_t workers = 0,
              Forms forms = {.rows = true, .codes = true}) {
    forms.codes = forms.codes && problem.columns() % block_columns == 0;
    StepLimits limits{.tokens = problem.tokens(),
                      .outputs = 1,
                      .vocabulary = 1,
                      .context_tokens = 1u << 20,
                      .page_tokens = kv_page_tokens,
                      .page_count = 1u << 20,
                      .device_slots = 0,
                      .attention = operations_.attention_limits()};
    if (workers != 0) limits.attention.workers = workers;
    StepTable step;
    must(StepLowering().lower(problem.plan, limits, step));
    cut_ = step.partials != 0;
    const Buffer words = upload(*device_, step.words), rope = upload(*device_, problem.rope);
    const Buffer qkv = upload(*device_, problem.qkv), kv = upload(*device_, problem.pages);
    const std::size_t size = std::size_t{problem.tokens()} * problem.out_stride();
    const std::size_t code_size = std::size_t{problem.tokens()} * code_stride(problem.columns());
    const Activation out{upload(*device_, std::vector<float>(size)),
                         upload(*device_, std::vector<std::uint32_t>(code_size))};
    must(operations_.rope_and_store(qkv, rope, kv, step, words));
    must(operations_.attend(qkv, rope, kv, out, forms, step, words));
    return {download<float>(*device_, out.rows, size),
            download<std::uint32_t>(*device_, out.codes, code_size),
            download<std::uint16_t>(*device_, kv, problem.pages.size())};
  }
  bool cut() const { return cut_; }  // whether the last run's tiles were

 private:
  static ModelSpec spec_of(const Shape& shape) {
    ModelSpec spec;
    spec.heads = shape.heads;
    spec.kv_heads = shape.kv_heads;
    spec.head_dim = shape.head_dim;
    spec.rope_dim = shape.rope_dim;
    spec.rope = shape.rope;
    return spec;
  }
  std::unique_ptr<Device> device_;
  Operations operations_;
  bool cut_ = false;
};

// One query in float64 over the keys and values that the run has stored.
void expect_close(const Problem& p, const Results& got, const PlanRow& row, std::uint32_t offset,
                  std::uint32_t head) {
  const Shape& s = p.shape;
  const std::uint32_t position = row.first_position + offset, token = row.token_offset + offset;
  const std::uint32_t g = head / (s.heads / s.kv_heads);
  const float* const x = &p.qkv[std::size_t{token} * p.qkv_stride() + head * s.head_dim];
  std::vector<double> q(x, x + s.head_dim), e;
  for (std::uint32_t i = 0; i < s.rope_dim / 2; ++i) {
    const bool halves = s.rope == RopeKind::halves;
    const std::uint32_t a = halves ? i : 2 * i, b = halves ? i + s.rope_dim / 2 : 2 * i + 1;
    const float* const turn = &p.rope[(std::size_t{position} * s.rope_dim / 2 + i) * 2];
    const double cosine = turn[0], sine = turn[1];
    q[a] = x[a] * cosine - x[b] * sine;
    q[b] = x[a] * sine + x[b] * cosine;
  }
  const auto page = [&](std::uint32_t j) { return p.plan.pages[row.page_offset + j / 16]; };
  double top = -INFINITY, mass = 0;
  for (std::uint32_t j = 0; j <= position; ++j) {
    double dot = 0;
    for (std::uint32_t d = 0; d < s.head_dim; ++d) {
      dot += q[d] * half_to_float(got.pages[at_key(s, page(j), g, j % 16, d)]);
    }
    e.push_back(dot / std::sqrt(static_cast<double>(s.head_dim)));
    top = std::max(top, e.back());
  }
  for (double& weight : e) mass += weight = std::exp(weight - top);
  for (std::uint32_t d = 0; d < s.head_dim; ++d) {
    double want = 0;
    for (std::uint32_t j = 0; j <= position; ++j) {
      want += e[j] * half_to_float(got.pages[at_value(s, page(j), g, j % 16, d)]);
    }
    const std::size_t at = std::size_t{token} * p.out_stride() + head * s.head_dim + d;
    ASSERT_NEAR(got.out[at], want / mass, 3e-5)
        << "token " << token << ", head " << head << ", channel " << d;
  }
}

void expect_close(const Problem& p, const Results& got) {
  for (const PlanRow& row : p.plan.rows) {
    for (std::uint32_t t = 0; t < row.count; ++t) {
      for (std::uint32_t h = 0; h < p.shape.heads; ++h) expect_close(p, got, row, t, h);
    }
  }
}

class AttentionTest : public ::testing::TestWithParam<Shape> {};

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

TEST_P(AttentionTest, EachFormAloneIsTheSameAsBeside) {
  const Shape shape = GetParam();
  if (shape.head_dim % block_columns != 0) GTEST_SKIP() << "heads are not whole blocks";
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

// Fewer registers, and no instruction for halves.
TEST(Attention, EveryVariantOfTheCpuKernelsGivesTheSameBits) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  for (const Shape shape : {Shape{64, 9, 3}, Shape{80, 5, 1}}) {
    Runner cpu("cpu", shape);
    Runner narrow("cpu", shape, {.sums = 6, .half_by_integers = false});
    Runner integers("cpu", shape, {.sums = 24, .half_by_integers = true});
    std::uint64_t seed = 100;
    for (const auto& sequences : steps) {
      const Problem problem = random_problem(shape, sequences, seed++);
      const Results reference = cpu.run(problem);
      ASSERT_TRUE(narrow.run(problem) == reference) << shape.head_dim << ", step " << seed - 100;
      ASSERT_TRUE(integers.run(problem) == reference) << shape.head_dim << ", step " << seed - 100;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         ::testing::Values(Shape{64, 9, 3}, Shape{64, 2, 2},
                                           Shape{64, 4, 2, 40, RopeKind::halves}, Shape{96, 8, 2},
                                           Shape{80, 5, 1}, Shape{128, 6, 1}, Shape{64, 14, 2},
                                           Shape{256, 8, 1}),
                         [](const auto& shape) {
                           const Shape& s = shape.param;
                           return std::to_string(s.head_dim) + "x" + std::to_string(s.heads) + "x" +
                                  std::to_string(s.kv_heads);
                         });

}  // namespace
}  // namespace millrace::engine
