// Compares the quantization of activations with its definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/quantize/code_block.h"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

// Quantizes rows of two blocks, with `items` work-items per row.
std::vector<std::int32_t> quantize(const std::vector<float>& rows, std::uint32_t items) {
  const auto device = open_device();
  const Program program = must(device->build({.name = "quantize",
                                              .sources = {"quantize/quantize.cl"},
                                              .defines = {"ROW_ITEMS=" + std::to_string(items)}}));
  Kernel kernel = must(device->kernel(program, "quantize_rows"));
  const std::size_t count = rows.size() / 64;
  const Buffer in = upload(*device, rows);
  const Buffer out = upload(*device, std::vector<std::int32_t>(count * 2 * Q_WORDS));
  must(device->launch(kernel, {.groups = {count}, .local = {items}},
                      {in, out, 2u, 64u, 2u * Q_WORDS}));
  return download<std::int32_t>(*device, out, count * 2 * Q_WORDS);
}

TEST(Quantize, GivesTheNearestCodesAndTheirSums) {
  Random random(3);
  std::vector<float> rows;
  for (const float size : {1.0f, 1e-6f, 3e4f, 0.0f, 1e-38f}) {
    for (std::uint32_t i = 0; i < 64; ++i) rows.push_back(random.uniform(-size, size));
  }
  rows[5] = 40.0f;  // far above the others, whose codes become 0 or 1
  const auto got = quantize(rows, 1);
  EXPECT_EQ(quantize(rows, 32), got);
  for (std::size_t b = 0; b < rows.size() / 32; ++b) {
    const float* const v = &rows[b * 32];
    float top = 0;
    for (int i = 0; i < 32; ++i) top = std::max(top, std::fabs(v[i]));
    const float scale = top < 1e-37f ? 0.0f : top * (1.0f / 127.0f);
    const std::int32_t* const q = &got[b * Q_WORDS];
    ASSERT_EQ(std::bit_cast<float>(q[Q_SCALE]), scale) << "block " << b;
    std::array<std::int8_t, 32> codes;
    std::memcpy(codes.data(), q, codes.size());
    std::int32_t sum = 0, half = 0;
    for (int i = 0; i < 32; ++i) {
      const double exact = scale == 0 ? 0.0 : static_cast<double>(v[i]) * 127 / top;
      ASSERT_NEAR(codes[i], exact, 0.5001) << "block " << b << ", channel " << i;
      ASSERT_LE(std::abs(codes[i]), 127);
      sum += codes[i];
      if (i < 16) half += codes[i];
    }
    EXPECT_EQ(std::bit_cast<float>(q[Q_SUM]), scale * static_cast<float>(sum));
    EXPECT_EQ(q[Q_OFFSET], -8 * sum);
    EXPECT_EQ(q[Q_OFFSET_HALF], -8 * half);
  }
}

TEST(Quantize, WhatIsNotFiniteStaysVisible) {
  for (const float bad : {INFINITY, -INFINITY, NAN}) {
    std::vector<float> rows(64, 1.0f);
    rows[40] = bad;
    const auto got = quantize(rows, 1);
    EXPECT_TRUE(std::isfinite(std::bit_cast<float>(got[Q_SCALE])));
    EXPECT_FALSE(std::isfinite(std::bit_cast<float>(got[Q_WORDS + Q_SCALE])));
  }
}

}  // namespace
}  // namespace millrace::engine
