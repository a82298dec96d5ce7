// Rotary tables against angles computed here, in another way, by the C library.
#include "engine/core/families/rotary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numbers>
#include <span>
#include <string_view>

#include "schemas/base/hash.hpp"

namespace millrace::engine {
namespace {

using Frequency = std::function<double(std::uint32_t)>;  // of an index

// Expects floats next to the truth almost always, and never more than one float away.
void expect_table(const RopeSpec& rope, const std::vector<std::uint32_t>& positions,
                  const Frequency& frequency) {
  const std::uint32_t half = rope.dim / 2;
  const auto table = rope_table(rope, std::ranges::max(positions) + 1);
  ASSERT_EQ(table.size(), std::size_t{std::ranges::max(positions) + 1} * half * 2);
  for (const std::uint32_t position : positions) {
    for (std::uint32_t i = 0; i < half; ++i) {
      const double angle = position * frequency(i);
      const std::size_t at = (std::size_t{position} * half + i) * 2;
      EXPECT_NEAR(table[at], rope.amplitude * std::cos(angle), 6e-8 * rope.amplitude)
          << position << ", " << i;
      EXPECT_NEAR(table[at + 1], rope.amplitude * std::sin(angle), 6e-8 * rope.amplitude)
          << position << ", " << i;
    }
  }
}

const std::vector<std::uint32_t> positions{0, 1, 2, 7, 40, 300, 4095, 4096, 20000};

double theta(const RopeSpec& rope, std::uint32_t i) {
  return std::pow(rope.base, -2.0 * i / rope.dim);
}

// The index at which a frequency turns `turns` times in the original context.
double index_of(const RopeSpec& rope, double turns) {
  return rope.dim * std::log(rope.yarn->original_tokens / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(rope.base));
}

// YaRN's frequencies, for a range that the test states.
Frequency stretched(const RopeSpec& rope, double low, double high) {
  return [=](std::uint32_t i) {
    const double ramp = std::min(1.0, std::max(0.0, (i - low) / (high - low)));
    return theta(rope, i) * ramp / rope.yarn->factor + theta(rope, i) * (1.0 - ramp);
  };
}

TEST(Rotary, PlainAndPartial) {
  for (const std::uint32_t dim : {2u, 16u, 64u, 96u}) {
    const RopeSpec rope{.dim = dim, .base = 500000.0};
    expect_table(rope, positions, [&](std::uint32_t i) { return theta(rope, i); });
  }
  EXPECT_TRUE(rope_table({.kind = RopeKind::none}, 10).empty());
}

TEST(Rotary, LinearDividesPositions) {
  const RopeSpec rope{.dim = 64, .base = 1e6, .linear_factor = 8.0};
  expect_table(rope, positions, [&](std::uint32_t i) { return theta(rope, i) / 8.0; });
}

// Llama 3.1: factor 8, wavelengths of 8192 / 4 to 8192 / 1 go over from kept to divided.
TEST(Rotary, Llama3DividesLongWavelengths) {
  RopeSpec rope{.dim = 128, .base = 500000.0};
  Frequency expected = [=](std::uint32_t i) {
    const double wavelength = 2 * std::numbers::pi / theta(rope, i);
    const double smooth = std::clamp((8192.0 / wavelength - 1.0) / (4.0 - 1.0), 0.0, 1.0);
    return theta(rope, i) * ((1.0 - smooth) / 8.0 + smooth);
  };
  std::vector<float> divisors;
  for (std::uint32_t i = 0; i < 64; ++i) {
    divisors.push_back(static_cast<float>(theta(rope, i) / expected(i)));
  }
  EXPECT_EQ(divisors.front(), 1.0f);
  EXPECT_EQ(divisors.back(), 8.0f);
  const RopeSpec plain = rope;
  rope.divisors = divisors;
  expect_table(rope, positions, [&](std::uint32_t i) { return theta(plain, i) / divisors[i]; });
}

TEST(Rotary, LongropeDividesAndSharpens) {
  RopeSpec rope{.dim = 96, .amplitude = std::sqrt(1.0 + std::log(32.0) / std::log(4096.0))};
  for (std::uint32_t i = 0; i < 48; ++i) rope.divisors.push_back(1.0f + 1.3f * float(i));
  expect_table(rope, positions, [&](std::uint32_t i) { return theta(rope, i) / rope.divisors[i]; });
}

// gpt-oss: the range is 8.0928 to 17.398, and stays so.
TEST(Rotary, GptOssDoesNotRoundTheRangeOfYarn) {
  RopeSpec rope{.kind = RopeKind::halves,
                .dim = 64,
                .base = 150000.0,
                .yarn = Yarn{.factor = 32.0, .original_tokens = 4096.0, .rounds_range = false},
                .amplitude = 0.1 * std::log(32.0) + 1.0};
  const double low = index_of(rope, 32.0), high = index_of(rope, 1.0);
  EXPECT_NEAR(low, 8.0928, 5e-5);
  EXPECT_NEAR(high, 17.398, 5e-4);
  EXPECT_NEAR(rope.amplitude, 1.3466, 5e-5);
  expect_table(rope, positions, stretched(rope, low, high));
  const auto kept = rope_table(rope, 301);
  rope.yarn->rounds_range = true;
  expect_table(rope, positions, stretched(rope, 8.0, 18.0));
  const auto rounded = rope_table(rope, 301);
  double most = 0;  // at position 300 the two differ visibly
  for (std::size_t i = 300 * 64; i < kept.size(); ++i) {
    most = std::max(most, std::abs(double{kept[i]} - double{rounded[i]}));
  }
  EXPECT_GT(most, 0.05);
}

// Ministral 3's numbers.
TEST(Rotary, YarnRoundsItsRangeOtherwise) {
  const RopeSpec rope{
      .dim = 128, .base = 1e6, .yarn = Yarn{.factor = 16.0, .original_tokens = 16384.0}};
  const double low = std::floor(index_of(rope, 32.0)), high = std::ceil(index_of(rope, 1.0));
  EXPECT_EQ(low, 20.0);
  EXPECT_EQ(high, 37.0);
  expect_table(rope, positions, stretched(rope, low, high));
}

TEST(Rotary, YarnsRangeStaysWithinTheHead) {
  RopeSpec rope{.dim = 8,
                .base = 10000.0,
                .yarn = Yarn{.factor = 4.0, .original_tokens = 64.0, .beta_fast = 64.0}};
  EXPECT_LT(index_of(rope, 64.0), 0.0);
  expect_table(rope, positions, stretched(rope, 0.0, std::ceil(index_of(rope, 1.0))));
  rope = {.dim = 8, .base = 2.0, .yarn = Yarn{.factor = 4.0, .original_tokens = 258.0}};
  EXPECT_EQ(std::floor(index_of(rope, 32.0)), 1.0);
  EXPECT_GT(index_of(rope, 1.0), 7.0);
  expect_table(rope, positions, stretched(rope, 1.0, 7.0));
}

std::string hash_of(const RopeSpec& rope) {
  const auto table = rope_table(rope, 1u << 17);
  const auto bytes = std::as_bytes(std::span(table));
  return hash128(std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())).hex();
}

// The hash of many angles, near and far. Another hash means other bits on this machine.
TEST(Rotary, TheTableIsTheSameOnEveryMachine) {
  EXPECT_EQ(hash_of({.dim = 64, .base = 500000.0}), "02c8338f4174212c5dc127d1d576cf33");
  EXPECT_EQ(hash_of({.dim = 64, .linear_factor = 8.0, .divisors = std::vector<float>(32, 3.0f)}),
            "3ee41133fe2f4ec6636ce96098b5b1d7");
  EXPECT_EQ(hash_of({.dim = 64,
                     .base = 150000.0,
                     .yarn = Yarn{.factor = 32.0, .original_tokens = 4096.0, .rounds_range = false},
                     .amplitude = 1.3465736}),
            "6f75dd33a8d162b522180d28312cc69c");
}

}  // namespace
}  // namespace millrace::engine
