#include "client/lines/custom_ids.hpp"

#include <gtest/gtest.h>

#include <string>

namespace millrace::client {
namespace {

TEST(CustomIds, LaterUsesNameTheLineOfTheFirst) {
  CustomIds ids;
  EXPECT_EQ(ids.add("a", 1), std::nullopt);
  EXPECT_EQ(ids.add("b", 2), std::nullopt);
  EXPECT_EQ(ids.add("a", 3), 1U);
  EXPECT_EQ(ids.add("a", 4), 1U);
  EXPECT_EQ(ids.add("a", 1), std::nullopt);  // the same line, read again
}

TEST(CustomIds, SurvivesGrowth) {
  CustomIds ids;
  for (std::uint64_t line = 1; line <= 100'000; ++line) {
    ASSERT_EQ(ids.add("id-" + std::to_string(line), line), std::nullopt);
  }
  for (std::uint64_t line = 1; line <= 100'000; line += 997) {
    EXPECT_EQ(ids.add("id-" + std::to_string(line), 200'000), line);
  }
}

}  // namespace
}  // namespace millrace::client
