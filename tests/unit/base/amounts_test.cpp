// Sizes and times as people write them.
#include "schemas/base/amounts.hpp"

#include <gtest/gtest.h>

#include <utility>

namespace millrace {
namespace {

TEST(Amounts, Sizes) {
  const std::pair<const char*, std::uint64_t> good[] = {{"0", 0},
                                                        {"1000000", 1'000'000},
                                                        {"1KiB", 1024},
                                                        {"2GiB", 2ull << 30},
                                                        {"1.5GiB", 3ull << 29},
                                                        {"512 MiB", 512ull << 20},
                                                        {"64m", 64ull << 20},
                                                        {"4G", 4ull << 30},
                                                        {"1TiB", 1ull << 40},
                                                        {"3GB", 3'000'000'000},
                                                        {"7B", 7}};
  for (const auto& [text, bytes] : good) {
    const auto parsed = parse_size(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, bytes) << text;
  }
  for (const char* text :
       {"", "GiB", "-1", "1XB", "1 2", "nan", "inf", "1e30", "1GiBx", "2X", "18446744073709551615"})
    EXPECT_EQ(parse_size(text).error().code, Code::usage) << text;
}

TEST(Amounts, Times) {
  const std::pair<const char*, std::uint64_t> good[] = {
      {"0", 0}, {"90", 90}, {"90s", 90}, {"15m", 900}, {"1.5h", 5'400}, {"30d", 2'592'000}};
  for (const auto& [text, seconds] : good) {
    const auto parsed = parse_duration(text);
    ASSERT_TRUE(parsed) << text;
    EXPECT_EQ(*parsed, seconds) << text;
  }
  for (const char* text : {"", "d", "-3d", "3w", "15M", "seven", "1h30m", "inf"}) {
    EXPECT_EQ(parse_duration(text).error().message, "\"" + std::string(text) + "\" is not a time");
  }
}

}  // namespace
}  // namespace millrace
