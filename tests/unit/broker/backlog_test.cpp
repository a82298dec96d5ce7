// Frames for peers that do not read: how many wait, and who pays when they are too many.
#include "broker/server/backlog.hpp"

#include <gtest/gtest.h>

#include "schemas/base/limits.hpp"

namespace millrace::broker {
namespace {

using Dropped = std::vector<std::string>;

constexpr std::uint64_t peers_at_their_limit = limits::unread_bytes_all / limits::unread_bytes;

void add_deaf_peers(Backlog& backlog, std::uint64_t bytes_each) {
  for (std::uint64_t i = 0; i < peers_at_their_limit; ++i) {
    EXPECT_EQ(backlog.add("deaf" + std::to_string(i), std::string(bytes_each, 'x'), 0), Dropped());
  }
}

TEST(Backlog, APeerAtItsLimitLosesItsFrames) {
  Backlog backlog;
  EXPECT_EQ(backlog.add("a", std::string(limits::unread_bytes, 'x'), 0), Dropped());
  EXPECT_EQ(backlog.add("b", "short", 0), Dropped());
  EXPECT_EQ(backlog.add("a", "one more", 0), Dropped{"a"});
  EXPECT_FALSE(backlog.holds("a"));
  EXPECT_TRUE(backlog.holds("b"));
  EXPECT_EQ(backlog.add("a", "again", 0), Dropped());
}

TEST(Backlog, SoManyMessagesAreALimitToo) {
  Backlog backlog;
  for (std::uint32_t i = 0; i < limits::unread_messages; ++i) {
    EXPECT_EQ(backlog.add("a", "x", 0), Dropped());
  }
  EXPECT_EQ(backlog.add("a", "x", 0), Dropped{"a"});
}

TEST(Backlog, WhoeverLeavesMostUnreadPaysForTheLimitOfAll) {
  Backlog backlog;
  add_deaf_peers(backlog, limits::unread_bytes - 1);
  EXPECT_EQ(backlog.add("deaf3", "x", 0), Dropped());  // it is the longest now
  EXPECT_EQ(backlog.add("slow", std::string(100, 'x'), 0), Dropped{"deaf3"});
  EXPECT_TRUE(backlog.holds("slow"));
  EXPECT_FALSE(backlog.holds("deaf3"));
  EXPECT_TRUE(backlog.holds("deaf4"));
}

TEST(Backlog, FramesOfThoseWhoPaidNoLongerCount) {
  Backlog backlog;
  for (int round = 0; round < 3; ++round) {
    for (std::uint64_t i = 0; i < 2 * peers_at_their_limit; ++i) {
      backlog.add("p" + std::to_string(i), std::string(limits::unread_bytes, 'x'), 0);
    }
  }
  std::uint64_t held = 0;
  for (std::uint64_t i = 0; i < 2 * peers_at_their_limit; ++i) {
    held += backlog.holds("p" + std::to_string(i));
  }
  EXPECT_EQ(held, peers_at_their_limit);
}

}  // namespace
}  // namespace millrace::broker
