// Both variants of attention, and the cpu variant for one and for several queries an item, against
// float64 and against each other, bit for bit; pages are scattered, lengths cross segments.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "engine/core/gguf/half.hpp"
#include "engine/core/kv/cache_group.hpp"
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
};

// One sequence's last `tokens` positions of `length`, ready to launch.
struct Problem {
  Shape shape;
  std::uint32_t length = 0, tokens = 0;
  std::uint32_t qkv_stride = 0, out_stride = 0;
  std::vector<float> qkv;            // only the queries are read
  std::vector<std::uint16_t> pages;  // halves, unwritten places hold NaN
  std::vector<std::uint32_t> table;  // page ids
  std::uint32_t first() const { return length - tokens; }
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

Problem random_problem(const Shape& shape, std::uint32_t length, std::uint32_t tokens,
                       std::uint64_t seed) {
  Random random(seed);
  Problem out{
      .shape = shape, .length = length, .tokens = tokens, .qkv = {}, .pages = {}, .table = {}};
  out.qkv_stride = (shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  out.out_stride = shape.heads * shape.head_dim + 16;
  out.qkv = random.floats(std::size_t{out.qkv_stride} * tokens, -2.0f, 2.0f);
  const std::uint32_t count = (length + kv_page_tokens - 1) / kv_page_tokens;
  out.table.resize(count);
  std::iota(out.table.begin(), out.table.end(), 1u);  // page 0 belongs to nobody
  for (std::uint32_t i = count; i > 1; --i) std::swap(out.table[i - 1], out.table[random.below(i)]);
  const std::size_t page = std::size_t{2} * kv_page_tokens * shape.head_dim * shape.kv_heads;
  out.pages.assign(page * (count + 1), 0x7e00);
  for (std::uint32_t j = 0; j < length; ++j) {
    for (std::uint32_t g = 0; g < shape.kv_heads; ++g) {
      for (std::uint32_t d = 0; d < shape.head_dim; ++d) {
        const std::uint32_t id = out.table[j / kv_page_tokens], slot = j % kv_page_tokens;
        out.pages[at_key(shape, id, g, slot, d)] = finite_half(random);
        out.pages[at_value(shape, id, g, slot, d)] = finite_half(random);
      }
    }
  }
  return out;
}

class Variant {
 public:
  Variant(const std::string& family, std::uint32_t queries, const Shape& shape)
      : device_(open_device({.variant = family})), queries_(queries) {
    const Program program = must(device_->build(
        {.name = "attention",
         .sources = {"kv/layout.cl", "attention/" + family + ".cl"},
         .defines = {
             "HEAD_DIM=" + std::to_string(shape.head_dim), "HEADS=" + std::to_string(shape.heads),
             "KV_HEADS=" + std::to_string(shape.kv_heads), "QUERIES=" + std::to_string(queries)}}));
    kernel_ = must(device_->kernel(program, "attention"));
  }

  // [tokens][heads * head_dim]; items hold at most `queries`, the first one `head_start` tokens.
  std::vector<float> run(const Problem& problem, std::uint32_t head_start = 0) {
    const std::uint32_t n = problem.tokens;
    std::vector<std::uint32_t> words, items;
    for (std::uint32_t t = 0; t < n; ++t) words.push_back(problem.first() + t);
    for (std::uint32_t done = 0; done < n;) {
      const std::uint32_t most = done == 0 && head_start > 0 ? head_start : queries_;
      const std::uint32_t take = std::min(most, n - done);
      items.insert(items.end(), {done, take});
      done += take;
    }
    const auto item_count = static_cast<std::uint32_t>(items.size() / 2);
    words.insert(words.end(), n, 2 * n + 2 * item_count);
    words.insert(words.end(), items.begin(), items.end());
    words.insert(words.end(), problem.table.begin(), problem.table.end());
    const Shape& s = problem.shape;
    const Buffer qkv = upload(*device_, problem.qkv), kv = upload(*device_, problem.pages);
    const Buffer step = upload(*device_, words);
    const Buffer out = upload(*device_, std::vector<float>(std::size_t{n} * problem.out_stride));
    const bool cpu = device_->family() == Family::cpu;
    Grid grid{.groups = {item_count, s.kv_heads}};
    if (!cpu) grid = {.groups = {(n * s.heads + 15) / 16}, .local = {16}};
    const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(s.head_dim)));
    must(device_->launch(kernel_, grid,
                         {qkv, kv, step, out, 0u, n, cpu ? 2 * n : n, problem.qkv_stride,
                          problem.out_stride, scale}));
    return download<float>(*device_, out, std::size_t{n} * problem.out_stride);
  }

 private:
  std::unique_ptr<Device> device_;
  std::uint32_t queries_;
  Kernel kernel_;
};

void expect_close(const Problem& p, const std::vector<float>& got) {
  const Shape& s = p.shape;
  for (std::uint32_t t = 0; t < p.tokens; ++t) {
    for (std::uint32_t h = 0; h < s.heads; ++h) {
      const std::uint32_t g = h / (s.heads / s.kv_heads);
      const float* const q = &p.qkv[std::size_t{t} * p.qkv_stride + h * s.head_dim];
      std::vector<double> e;
      double top = -INFINITY, mass = 0;
      for (std::uint32_t j = 0; j <= p.first() + t; ++j) {
        double dot = 0;
        for (std::uint32_t d = 0; d < s.head_dim; ++d) {
          const std::size_t at = at_key(s, p.table[j / 16], g, j % 16, d);
          dot += static_cast<double>(q[d]) * half_to_float(p.pages[at]);
        }
        e.push_back(dot / std::sqrt(static_cast<double>(s.head_dim)));
        top = std::max(top, e.back());
      }
      for (double& x : e) mass += x = std::exp(x - top);
      for (std::uint32_t d = 0; d < s.head_dim; ++d) {
        double want = 0;
        for (std::size_t j = 0; j < e.size(); ++j) {
          want += e[j] * half_to_float(p.pages[at_value(s, p.table[j / 16], g, j % 16, d)]);
        }
        ASSERT_NEAR(got[std::size_t{t} * p.out_stride + h * s.head_dim + d], want / mass, 2e-5)
            << "token " << t << ", head " << h << ", channel " << d;
      }
    }
  }
}

class AttentionTest : public ::testing::TestWithParam<Shape> {};

TEST_P(AttentionTest, EveryVariantEqualsTheOthersAndFloat64) {
  const Shape shape = GetParam();
  const std::uint32_t many = std::max(2u, 12 / (shape.heads / shape.kv_heads));
  Variant generic("generic", 1, shape), one("cpu", 1, shape), several("cpu", many, shape);
  std::uint64_t seed = 1;
  for (const auto& [length, tokens] :
       std::vector<std::pair<std::uint32_t, std::uint32_t>>{{1, 1},
                                                            {5, 5},
                                                            {16, 16},
                                                            {17, 3},
                                                            {40, 40},
                                                            {255, 2},
                                                            {256, 5},
                                                            {257, 9},
                                                            {270, 30},
                                                            {530, 20}}) {
    const Problem problem = random_problem(shape, length, tokens, seed++);
    const auto reference = generic.run(problem);
    ASSERT_NO_FATAL_FAILURE(expect_close(problem, reference)) << length << "/" << tokens;
    ASSERT_EQ(one.run(problem), reference) << length << "/" << tokens;
    ASSERT_EQ(several.run(problem), reference) << length << "/" << tokens;
    ASSERT_EQ(several.run(problem, 1), reference) << length << "/" << tokens;
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, AttentionTest,
                         ::testing::Values(Shape{64, 9, 3}, Shape{96, 4, 4}, Shape{128, 4, 2},
                                           Shape{80, 5, 1}),
                         [](const auto& shape) {
                           const Shape& s = shape.param;
                           return std::to_string(s.head_dim) + "x" + std::to_string(s.heads) + "x" +
                                  std::to_string(s.kv_heads);
                         });

}  // namespace
}  // namespace millrace::engine
