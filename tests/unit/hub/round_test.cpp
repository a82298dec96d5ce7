#include "engine/core/hub/round.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/core/gguf/half.hpp"

namespace millrace::engine {
namespace {

TEST(Round, KeepsEveryHalf) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_half(value), half) << bits;
  }
}

TEST(Round, KeepsEveryBfloat16) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto brain = static_cast<std::uint16_t>(bits);
    const float value = bfloat16_to_float(brain);
    if (std::isnan(value)) continue;
    ASSERT_EQ(float_to_bfloat16(value), brain) << bits;
  }
}

// The middle between two neighbours goes to the even one, what is nearer to one goes there.
TEST(Round, TakesTheNearestHalf) {
  for (std::uint32_t bits = 0; bits + 1 < 0x7c00; ++bits) {
    const float low = half_to_float(static_cast<std::uint16_t>(bits));
    const float high = half_to_float(static_cast<std::uint16_t>(bits + 1));
    const float middle = low + (high - low) / 2;
    ASSERT_EQ(float_to_half(middle), bits % 2 == 0 ? bits : bits + 1) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, low)), bits) << bits;
    ASSERT_EQ(float_to_half(std::nextafter(middle, high)), bits + 1) << bits;
    ASSERT_EQ(float_to_half(-std::nextafter(middle, high)), 0x8000 + bits + 1) << bits;
  }
  EXPECT_EQ(float_to_half(65520.0f), 0x7c00);  // rounds to infinity
  EXPECT_EQ(float_to_half(65519.0f), 0x7bff);
  EXPECT_EQ(float_to_half(0x1p-26f), 0);
  EXPECT_EQ(float_to_half(std::numeric_limits<float>::infinity()), 0x7c00);
  EXPECT_TRUE(std::isnan(half_to_float(float_to_half(std::nanf("")))));
}

TEST(Round, TakesTheNearestBfloat16) {
  EXPECT_EQ(float_to_bfloat16(1.0f), 0x3f80);
  EXPECT_EQ(float_to_bfloat16(1.0f + 0x1p-8f), 0x3f80);             // the middle, even below
  EXPECT_EQ(float_to_bfloat16(1.0f + 0x1p-7f + 0x1p-8f), 0x3f82);   // the middle, even above
  EXPECT_EQ(float_to_bfloat16(1.0f + 0x1p-8f + 0x1p-20f), 0x3f81);  // above the middle
  EXPECT_EQ(float_to_bfloat16(-1.0f - 0x1p-8f - 0x1p-20f), 0xbf81);
}

}  // namespace
}  // namespace millrace::engine
