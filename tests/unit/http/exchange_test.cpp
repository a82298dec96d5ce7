// How often what is posted wakes the server's thread, and how much a stream's queue takes.
#include "http/exchange.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace millrace::http {
namespace {

constexpr std::uint32_t hour_ms = 3'600'000;

struct Posts {
  ~Posts() { inbox->close(); }  // what waits in it refers to it

  std::shared_ptr<Exchange> exchange() const {
    return std::make_shared<Exchange>(Request(), inbox, QueueBounds{.bytes = 1'000});
  }
  int wakes = 0;
  std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>([this] { ++wakes; });
};

TEST(WakeOnce, WakesTheServerAtItsEnd) {
  Posts posts;
  const auto first = posts.exchange(), second = posts.exchange();
  {
    const WakeOnce once;
    first->begin_stream({});
    // The server's thread may run for another reason meanwhile; the next post counts again.
    EXPECT_EQ(posts.inbox->take().size(), 1u);
    first->write("a");
    second->begin_stream({});
    EXPECT_EQ(posts.wakes, 0);
  }
  EXPECT_EQ(posts.wakes, 1);
  EXPECT_EQ(posts.inbox->take().size(), 2u);
}

TEST(WakeOnce, WakesNobodyWhereEverythingWasTaken) {
  Posts posts;
  {
    const WakeOnce once;
    posts.exchange()->begin_stream({});
    EXPECT_EQ(posts.inbox->take().size(), 1u);
  }
  EXPECT_EQ(posts.wakes, 0);
  posts.exchange()->begin_stream({});
  EXPECT_EQ(posts.wakes, 1);
}

TEST(WakeOnce, MayStandInsideOfAnother) {
  Posts posts;
  {
    const WakeOnce outer;
    {
      const WakeOnce inner;
      posts.exchange()->begin_stream({});
    }
    EXPECT_EQ(posts.wakes, 1);
    EXPECT_EQ(posts.inbox->take().size(), 1u);
    posts.exchange()->begin_stream({});
    EXPECT_EQ(posts.wakes, 1) << "the outer one holds it back";
  }
  EXPECT_EQ(posts.wakes, 2);
}

TEST(WakeOnce, WakesOnceForManyStreams) {
  Posts posts;
  {
    const WakeOnce once;
    for (int i = 0; i < 64; ++i) posts.exchange()->begin_stream({});
    EXPECT_EQ(posts.wakes, 0);
  }
  EXPECT_EQ(posts.wakes, 1);
  EXPECT_EQ(posts.inbox->take().size(), 64u);
  posts.exchange()->begin_stream({});
  EXPECT_EQ(posts.wakes, 2) << "after its end each post wakes again";
}

TEST(WakeOnce, HoldsBackNoPostOfAnotherThread) {
  Posts posts;
  const WakeOnce once;
  std::thread([&] { posts.exchange()->begin_stream({}); }).join();
  EXPECT_EQ(posts.wakes, 1);
}

TEST(WakeOnce, HoldsBackNoPostOfAnotherThreadAfterItsOwn) {
  Posts posts;
  {
    const WakeOnce once;
    posts.exchange()->begin_stream({});
    EXPECT_EQ(posts.wakes, 0);
    std::thread([&] { posts.exchange()->begin_stream({}); }).join();
    EXPECT_EQ(posts.wakes, 1);
  }
  EXPECT_EQ(posts.wakes, 1) << "the server was woken already, and takes both";
  EXPECT_EQ(posts.inbox->take().size(), 2u);
}

TEST(WakeOnce, WakesNoServerThatHasEnded) {
  Posts posts;
  {
    const WakeOnce once;
    posts.exchange()->begin_stream({});
    posts.inbox->close();
  }
  EXPECT_EQ(posts.wakes, 0);
}

std::shared_ptr<Exchange> stream_with(const Posts& posts, QueueBounds bounds) {
  auto exchange = std::make_shared<Exchange>(Request(), posts.inbox, bounds);
  exchange->begin_stream({});
  return exchange;
}

TEST(StreamQueue, TakesMoreThanItsBoundForAWhile) {
  const Posts posts;
  const auto exchange = stream_with(posts, {.bytes = 10, .most_bytes = 1'000, .wait_ms = hour_ms});
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(exchange->write(std::string(100, 'x'))) << i;
  EXPECT_TRUE(exchange->write("y")) << "1,000 bytes wait, which is not more than the most";
  EXPECT_FALSE(exchange->write("z"));
}

TEST(StreamQueue, TakesNoMoreWhereItsTimeIsOver) {
  const Posts posts;
  const auto exchange = stream_with(posts, {.bytes = 10, .most_bytes = 1'000, .wait_ms = 0});
  EXPECT_TRUE(exchange->write(std::string(10, 'x')));
  EXPECT_TRUE(exchange->write(std::string(10, 'x')))
      << "10 bytes wait, which is not over the bound";
  EXPECT_FALSE(exchange->write("y"));
}

}  // namespace
}  // namespace millrace::http
