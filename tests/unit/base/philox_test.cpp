#include "schemas/base/philox.hpp"

#include <gtest/gtest.h>

#include <cmath>

namespace millrace {
namespace {

// Vectors published with the Random123 library (kat_vectors, philox4x32 10).
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (PhiloxCounter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (PhiloxCounter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (PhiloxCounter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UnitStaysInsideTheOpenInterval) {
  EXPECT_GT(philox_unit(0), 0.0f);
  EXPECT_LT(philox_unit(0xffffffff), 1.0f);
  EXPECT_TRUE(std::isfinite(std::log(philox_unit(0))));
  EXPECT_TRUE(std::isfinite(std::log(-std::log(philox_unit(0xffffffff)))));
  EXPECT_EQ(philox_unit(0x80000000), 0.5f + 0.5f / 8388608.0f);
}

TEST(Philox, KeyTakesTheWholeSeed) {
  EXPECT_EQ(philox_key(0x0123456789abcdef), (PhiloxKey{0x89abcdef, 0x01234567}));
}

}  // namespace
}  // namespace millrace
