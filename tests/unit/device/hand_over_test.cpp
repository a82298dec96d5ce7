// What is handed over from one device to another arrives whole and in order, however much is under
// way, and wrong calls are refused.
#include "engine/core/device/hand_over.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using millrace::testing::must;

class HandOverTest : public ::testing::Test {
 protected:
  // Another queue of the same device, with a context of its own, is a device like another.
  static std::unique_ptr<Device> another(const Device& device) {
    return millrace::testing::open_device({.device = std::to_string(device.info().platform_index) +
                                                     ":" +
                                                     std::to_string(device.info().device_index)});
  }
  std::vector<std::uint32_t> numbers(std::uint32_t count, std::uint32_t seed) {
    std::vector<std::uint32_t> out(count);
    for (std::uint32_t i = 0; i < count; ++i) out[i] = i * 2654435761u + seed;
    return out;
  }

  std::unique_ptr<Device> one_ = millrace::testing::open_device();
  std::unique_ptr<Device> two_ = another(*one_);
};

TEST_F(HandOverTest, BytesArriveInOrder) {
  HandOver over(*one_, *two_, 3, "numbers");
  constexpr std::uint32_t most = 50'000, rounds = 4;
  const Buffer to = must(two_->allocate(most * 4, "the destination"));
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::vector<Buffer> from;
    std::vector<std::vector<std::uint32_t>> sent;
    for (std::uint32_t i = 0; i < 3; ++i) {  // larger each time, so that the memory grows
      sent.push_back(numbers((round * 3 + i + 1) * 4'000, round * 3 + i));
      from.push_back(millrace::testing::upload(*one_, sent.back()));
      must(over.take(from.back(), sent.back().size() * 4));
    }
    EXPECT_TRUE(over.full());
    for (const std::vector<std::uint32_t>& wanted : sent) {
      must(over.give(to));
      EXPECT_EQ(millrace::testing::download<std::uint32_t>(*two_, to, wanted.size()), wanted);
    }
    EXPECT_EQ(over.waiting(), 0u);
  }
}

TEST_F(HandOverTest, WhatIsTakenMayBeOverwrittenAtOnce) {
  HandOver over(*one_, *two_, 2, "numbers");
  const auto first = numbers(9'000, 1), second = numbers(9'000, 2);
  const Buffer from = millrace::testing::upload(*one_, first);
  const Buffer to = must(two_->allocate(first.size() * 4, "the destination"));
  must(over.take(from, first.size() * 4));
  must(one_->write(from, 0, std::as_bytes(std::span(second))));
  must(over.take(from, second.size() * 4));
  must(over.give(to));
  EXPECT_EQ(millrace::testing::download<std::uint32_t>(*two_, to, first.size()), first);
  must(over.give(to));
  EXPECT_EQ(millrace::testing::download<std::uint32_t>(*two_, to, second.size()), second);
}

TEST_F(HandOverTest, WrongCallsAreRefused) {
  HandOver over(*one_, *two_, 1, "the numbers");
  const auto sent = numbers(100, 3);
  const Buffer from = millrace::testing::upload(*one_, sent);
  const Buffer to = must(two_->allocate(400, "the destination"));
  const Status early = over.give(to);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::internal);
  EXPECT_EQ(early.error().message, "the numbers were given before they were taken");
  must(over.take(from, 400));
  const Status twice = over.take(from, 400);
  ASSERT_FALSE(twice);
  EXPECT_EQ(twice.error().code, Code::internal);
  over.drop();
  must(over.take(from, 400));
  must(over.give(to));
  EXPECT_EQ(millrace::testing::download<std::uint32_t>(*two_, to, sent.size()), sent);
}

}  // namespace
}  // namespace millrace::engine
