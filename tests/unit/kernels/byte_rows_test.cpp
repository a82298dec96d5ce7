// Rows of channels as bytes for products of math int8 (kernels/quantize/rotate.cl), made of floats,
// of halves and by the norm, against a host reference: the rotation bit by bit, the scale too, each
// byte as near as its scale allows.
#include "engine/core/model/backend/nvidia/byte_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
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

constexpr std::uint32_t unwritten = 0x7fff7fff;

// Rows of bytes, as on the device.
struct Bytes {
  std::uint32_t groups = 0;
  std::vector<std::uint32_t> words;

  int code(std::uint32_t row, std::uint32_t channel) const {
    const std::size_t vector = INT8_VECTOR_AT(std::size_t{row}, channel / 16, groups);
    const std::uint32_t word = words[vector * 4 + channel % 16 / 4];
    return static_cast<std::int8_t>(word >> channel % 4 * 8);
  }
  float scale(std::uint32_t row) const {
    return std::bit_cast<float>(words[INT8_SCALE_AT(std::size_t{row}, groups)]);
  }
};

// What a device makes of rows. It has the operations of a model of that width.
class Quantizer {
 public:
  explicit Quantizer(std::uint32_t width)
      : width_(width), device_(open_device({.variant = "nvidia"})) {
    ModelSpec spec = one_layer({.head_dim = 32});
    spec.width = width;
    operations_ = std::make_unique<Operations>(*device_, spec, MathMode::int8);
    must(operations_->prepare_layer());
  }

  // Of floats, [.][width].
  Bytes of_rows(const std::vector<float>& x) {
    const Activation in = activation(x);
    must(rows().run({in.rows, false, in.bytes, width_, count(x)}));
    return bytes(in, count(x));
  }
  // Of the halves that the device makes of floats.
  Bytes of_halves(const std::vector<float>& x) {
    const Activation in = activation(x);
    must(operations_->complete(in, {.rows = true}, {.codes = true}, width_, count(x)));
    must(rows().run({in.codes, true, in.bytes, width_, count(x)}));
    return bytes(in, count(x));
  }
  struct Normed {
    std::vector<float> rows;  // [.][width]
    Bytes bytes;
  };
  Normed of_norm(const std::vector<float>& x, const std::vector<float>& weight, bool rows) {
    const std::uint32_t stride = input_stride(width_);
    std::vector<float> padded(round_up(width_, 32));
    std::ranges::copy(weight, padded.begin());
    StepTable step;
    step.tokens = count(x);
    const Activation in = activation(x), out = activation(std::vector<float>(x.size()));
    must(operations_->norm(in.rows, upload(*device_, padded), out, {.rows = rows, .bytes = true},
                           step, upload(*device_, std::vector<std::uint32_t>(4)), false));
    Normed made{.rows = {}, .bytes = bytes(out, count(x))};
    const auto all = download<float>(*device_, out.rows, std::size_t{stride} * count(x));
    for (std::uint32_t r = 0; r < count(x); ++r) {
      const auto at = all.begin() + std::ptrdiff_t{r} * stride;
      made.rows.insert(made.rows.end(), at, at + width_);
    }
    return made;
  }

 private:
  std::uint32_t count(const std::vector<float>& x) const {
    return static_cast<std::uint32_t>(x.size() / width_);
  }
  ByteRows& rows() {
    if (!rows_) rows_ = std::make_unique<ByteRows>(operations_->target());
    must(rows_->prepare(width_));
    return *rows_;
  }
  Activation activation(const std::vector<float>& x) {
    const std::uint32_t stride = input_stride(width_);
    std::vector<float> rows(std::size_t{stride} * count(x));
    for (std::uint32_t r = 0; r < count(x); ++r) {
      std::copy_n(&x[std::size_t{r} * width_], width_, &rows[std::size_t{r} * stride]);
    }
    const Target& target = operations_->target();
    const auto words = [&](std::uint64_t number) {
      return upload(*device_, std::vector<std::uint32_t>(number, unwritten));
    };
    return {.rows = upload(*device_, rows),
            .codes = words(target.code_words(width_, count(x))),
            .bytes = words(target.byte_words(width_, count(x)))};
  }
  Bytes bytes(const Activation& of, std::uint32_t count) {
    const std::uint64_t words = operations_->target().byte_words(width_, count);
    return {INT8_GROUPS(width_), download<std::uint32_t>(*device_, of.bytes, words)};
  }

  std::uint32_t width_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Operations> operations_;
  std::unique_ptr<ByteRows> rows_;
};

std::vector<float> rotated(std::vector<float> x) {
  x.resize(round_up(static_cast<std::uint32_t>(x.size()), INT8_GROUP));
  for (std::size_t apart = 1; apart < INT8_GROUP; apart *= 2) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if ((i & apart) != 0) continue;
      const float a = x[i], b = x[i + apart];
      x[i] = a + b;
      x[i + apart] = a - b;
    }
  }
  return x;
}

void expect_bytes(const Bytes& got, const std::vector<float>& x, std::uint32_t width) {
  for (std::uint32_t r = 0; r < x.size() / width; ++r) {
    const auto begin = x.begin() + std::ptrdiff_t{r} * width;
    const std::vector<float> row = rotated({begin, begin + width});
    float top = 0;
    for (const float v : row) top = std::max(top, std::fabs(v));
    ASSERT_EQ(got.scale(r), top * (1.0f / 127)) << "row " << r;
    for (std::uint32_t c = 0; c < row.size(); ++c) {
      const double exact = static_cast<double>(row[c]) / static_cast<double>(got.scale(r));
      ASSERT_NEAR(got.code(r, c), exact, .5001) << "row " << r << ", channel " << c;
    }
  }
}

std::vector<float> numbers(std::uint32_t width, std::uint32_t rows) {
  Random random(width);
  std::vector<float> x = random.floats(std::size_t{rows} * width, -3, 4);
  x[width / 2] = 900;  // an outlier
  return x;
}

// Widths that take one vector of a work-item or several, with a last group that is whole or not.
class ByteRowsTest : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(Widths, ByteRowsTest, ::testing::Values(32, 576, 2048, 4128),
                         ::testing::PrintToStringParamName());

TEST_P(ByteRowsTest, AreThoseOfTheHost) {
  const std::uint32_t width = GetParam();
  constexpr std::uint32_t rows = 67;  // more than a panel
  const std::vector<float> x = numbers(width, rows);
  Quantizer quantizer(width);
  expect_bytes(quantizer.of_rows(x), x, width);
  std::vector<float> halves = x;
  for (float& v : halves) v = half_to_float(float_to_half(v * H_SCALE)) * H_UNIT;
  expect_bytes(quantizer.of_halves(x), halves, width);
  EXPECT_EQ(quantizer.of_halves(halves).words, quantizer.of_rows(halves).words);
}

TEST_P(ByteRowsTest, OfTheNormAreThoseOfItsRows) {
  const std::uint32_t width = GetParam();
  Random random(1);
  const std::vector<float> weight = random.floats(width, -2, 2);
  Quantizer quantizer(width);
  const Quantizer::Normed both = quantizer.of_norm(numbers(width, 67), weight, true);
  EXPECT_EQ(both.bytes.words, quantizer.of_rows(both.rows).words);
  EXPECT_EQ(quantizer.of_norm(numbers(width, 67), weight, false).bytes.words, both.bytes.words);
}

TEST(ByteRows, WhatIsNotFiniteOrTooLargeShowsInItsRow) {
  constexpr std::uint32_t width = 160;
  std::vector<float> x(5 * width, 1.0f);
  x[40] = NAN;
  x[width + 150] = -INFINITY;
  x[2 * width + 3] = 0x1p+101f;
  std::fill_n(&x[3 * width], width, 0x1p-110f);
  const Bytes got = Quantizer(width).of_rows(x);
  for (const std::uint32_t row : {0u, 1u, 2u}) EXPECT_TRUE(std::isnan(got.scale(row))) << row;
  EXPECT_EQ(got.scale(3), 0.0f);
  for (std::uint32_t c = 0; c < 256; ++c) ASSERT_EQ(got.code(3, c), 0);
  EXPECT_EQ(got.scale(4), 128.0f * (1.0f / 127));
  EXPECT_EQ(got.code(4, 0), 127);
}

}  // namespace
}  // namespace millrace::engine
