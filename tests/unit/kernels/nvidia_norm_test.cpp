// The norm of NVIDIA GPUs (kernels/norm/nvidia.cl) against float64, in both forms, for widths that
// take one vector of a work-item or several, whole or not.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "engine/core/gguf/half.hpp"
#include "engine/core/model/operations.hpp"
#include "tests/support/device.hpp"
#include "tests/support/one_layer.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

constexpr float epsilon = 1e-5f;
constexpr std::uint32_t filler = 0x7fff7fff;

struct Normed {
  std::vector<float> rows;           // [rows][input_stride(width)]
  std::vector<std::uint32_t> codes;  // as on the device
};

class Norms {
 public:
  Norms(std::uint32_t width, bool centered, MathMode math = MathMode::fast,
        const char* variant = "nvidia")
      : width_(width), device_(open_device({.variant = variant})) {
    ModelSpec spec = one_layer({.head_dim = 32});
    spec.width = width;
    spec.norm_epsilon = epsilon;
    spec.centered_norms = centered;
    operations_ = std::make_unique<Operations>(*device_, spec, math);
    must(operations_->prepare_layer());
  }

  // Norms rows of x, [.][width]; those of `outputs` alone if there are any.
  Normed run(const std::vector<float>& x, const std::vector<float>& weight, Forms forms,
             const std::vector<std::uint32_t>& outputs = {}) {
    const auto count = static_cast<std::uint32_t>(x.size() / width_);
    const std::uint32_t stride = input_stride(width_);
    std::vector<float> rows(std::size_t{stride} * count), padded(round_up(width_, 32));
    for (std::uint32_t r = 0; r < count; ++r) {
      std::copy_n(&x[std::size_t{r} * width_], width_, &rows[std::size_t{r} * stride]);
    }
    std::ranges::copy(weight, padded.begin());
    StepTable step;
    step.tokens = count;
    step.outputs = static_cast<std::uint32_t>(outputs.size());
    std::vector<std::uint32_t> words(3);  // the outputs begin at the fourth
    words.insert(words.end(), outputs.begin(), outputs.end());
    step.outputs_at = 3;
    const std::uint32_t made = outputs.empty() ? count : step.outputs;
    const std::size_t code_words = operations_->target().code_words(width_, made);
    const Activation out{
        .rows = upload(*device_, std::vector<float>(std::size_t{stride} * (made + 1), -5.0f)),
        .codes = upload(*device_, std::vector<std::uint32_t>(code_words, filler))};
    must(operations_->norm(upload(*device_, rows), upload(*device_, padded), out, forms, step,
                           upload(*device_, words), !outputs.empty()));
    return {download<float>(*device_, out.rows, std::size_t{stride} * (made + 1)),
            download<std::uint32_t>(*device_, out.codes, code_words)};
  }

 private:
  std::uint32_t width_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Operations> operations_;
};

std::uint16_t code_at(const Normed& normed, std::uint32_t row, std::uint32_t channel,
                      std::uint32_t width) {
  const std::uint32_t vectors = code_stride(width, CodeForm::halves) / 4;
  const std::size_t at = std::size_t{H_VECTOR_AT(row, channel / 8, vectors)} * 8 + channel % 8;
  return static_cast<std::uint16_t>(normed.codes[at / 2] >> (at % 2 * 16));
}

void expect_float64(std::uint32_t width, bool centered) {
  SCOPED_TRACE(std::to_string(width) + (centered ? ", centered" : ""));
  constexpr std::uint32_t rows = 67;  // more than a panel of codes
  Random random(width);
  const std::vector<float> x = random.floats(std::size_t{rows} * width, -9, 12);
  const std::vector<float> weight = random.floats(width, -2, 2);
  const bool codes = width % block_columns == 0;
  const Normed got = Norms(width, centered).run(x, weight, {.rows = true, .codes = codes});
  const std::uint32_t stride = input_stride(width);
  for (std::uint32_t r = 0; r < rows; ++r) {
    const float* const row = &x[std::size_t{r} * width];
    double mean = 0, squares = 0;
    for (std::uint32_t c = 0; centered && c < width; ++c)
      mean += static_cast<double>(row[c]) / width;
    for (std::uint32_t c = 0; c < width; ++c) squares += std::pow(row[c] - mean, 2);
    const double scale = 1 / std::sqrt(squares / width + static_cast<double>(epsilon));
    for (std::uint32_t c = 0; c < round_up(width, 16); ++c) {
      const float value = got.rows[std::size_t{r} * stride + c];
      const double want = c < width ? (row[c] - mean) * scale * static_cast<double>(weight[c]) : 0;
      ASSERT_NEAR(value, want, 1e-6 * (1 + std::fabs(want))) << r << ", " << c;
      if (codes) {
        ASSERT_EQ(code_at(got, r, c, width), float_to_half(value * H_SCALE)) << r << ", " << c;
      }
    }
    ASSERT_EQ(got.rows[std::size_t{r} * stride + round_up(width, 16)], -5.0f);
  }
  ASSERT_EQ(got.rows[std::size_t{rows} * stride], -5.0f);
}

TEST(NvidiaNorm, EqualsFloat64) {
  for (const std::uint32_t width : {20u, 64u, 576u, 2080u, 4096u, 5152u}) {
    expect_float64(width, false);
  }
  expect_float64(2048, true);
  expect_float64(592, true);
}

TEST(NvidiaNorm, EachFormAloneAndRowsInAnyOrderHaveTheSameBits) {
  constexpr std::uint32_t width = 608, rows = 70;
  Random random(1);
  const std::vector<float> x = random.floats(std::size_t{rows} * width, -9, 9);
  const std::vector<float> weight = random.floats(width, -2, 2);
  Norms norms(width, false);
  const Normed both = norms.run(x, weight, {.rows = true, .codes = true});
  const Normed only_rows = norms.run(x, weight, {.rows = true});
  const Normed only_codes = norms.run(x, weight, {.codes = true});
  EXPECT_EQ(only_rows.rows, both.rows);
  EXPECT_EQ(only_codes.codes, both.codes);
  EXPECT_TRUE(std::ranges::all_of(only_codes.rows, [](float value) { return value == -5.0f; }));
  EXPECT_EQ(std::ranges::count(only_rows.codes, filler), std::ssize(only_rows.codes));
  const std::vector<std::uint32_t> outputs{66, 2, 2};
  const Normed some = norms.run(x, weight, {.rows = true, .codes = true}, outputs);
  for (std::uint32_t i = 0; i < outputs.size(); ++i) {
    for (std::uint32_t c = 0; c < width; ++c) {
      const std::uint32_t stride = input_stride(width);
      ASSERT_EQ(some.rows[i * stride + c], both.rows[std::size_t{outputs[i]} * stride + c]);
      ASSERT_EQ(code_at(some, i, c, width), code_at(both, outputs[i], c, width));
    }
  }
}

TEST(NvidiaNorm, WhatIsNotFiniteStaysVisibleInItsRow) {
  constexpr std::uint32_t width = 64;
  std::vector<float> x(3 * width, 1.0f);
  x[width + 40] = NAN;
  const Normed got =
      Norms(width, false).run(x, std::vector<float>(width, 1.0f), {.rows = true, .codes = true});
  for (std::uint32_t c = 0; c < width; ++c) {
    EXPECT_TRUE(std::isfinite(got.rows[c]));
    EXPECT_FALSE(std::isfinite(got.rows[input_stride(width) + c]));
    EXPECT_FALSE(std::isfinite(half_to_float(code_at(got, 1, c, width))));
  }
}

// In math exact all families have the same bits.
TEST(NvidiaNorm, ExactMathKeepsTheSumsOfOtherFamilies) {
  constexpr std::uint32_t width = 576;
  Random random(2);
  const std::vector<float> x = random.floats(std::size_t{9} * width, -9, 9);
  const std::vector<float> weight = random.floats(width, -2, 2);
  const auto rows = [&](MathMode math, const char* variant) {
    return Norms(width, false, math, variant).run(x, weight, {.rows = true}).rows;
  };
  EXPECT_EQ(rows(MathMode::exact, "nvidia"), rows(MathMode::exact, "generic"));
  EXPECT_NE(rows(MathMode::fast, "nvidia"), rows(MathMode::exact, "nvidia"));
}

}  // namespace
}  // namespace millrace::engine
