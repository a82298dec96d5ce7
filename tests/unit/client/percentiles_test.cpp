// Percentiles of durations: as near as promised, whatever the values.
#include "client/commands/percentiles.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

namespace millrace::client {
namespace {

TEST(Percentiles, AreWithinAHundredthOfTheValue) {
  std::mt19937_64 random(7);
  for (const int bits : {4, 9, 20, 40, 63}) {
    Percentiles counted;
    std::vector<std::uint64_t> values;
    for (int i = 0; i < 5'000; ++i) {
      values.push_back(random() >> (64 - bits));
      counted.add(values.back());
    }
    std::ranges::sort(values);
    for (const double share : {0.01, 0.5, 0.9, 0.99, 1.0}) {
      const auto exact =
          static_cast<double>(values[static_cast<std::size_t>(std::lround(share * 5'000)) - 1]);
      EXPECT_NEAR(static_cast<double>(counted.at(share)), exact, exact * 0.01) << bits << share;
    }
    EXPECT_EQ(counted.most(), values.back());
    EXPECT_EQ(counted.count(), values.size());
  }
}

TEST(Percentiles, OfFewValuesAreThese) {
  Percentiles counted;
  EXPECT_EQ(counted.at(0.5), 0u);
  EXPECT_EQ(counted.mean(), 0);
  counted.add(1'000'003);
  EXPECT_EQ(counted.at(0.5), 1'000'003u);
  counted.add(5);
  EXPECT_EQ(counted.at(0.5), 5u);
  EXPECT_EQ(counted.at(0.99), 1'000'003u);
  EXPECT_EQ(counted.mean(), 500'004);
}

}  // namespace
}  // namespace millrace::client
