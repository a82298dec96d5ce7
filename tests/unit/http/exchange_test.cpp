// How often what is posted wakes the server's thread.
#include "http/exchange.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace millrace::http {
namespace {

struct Posts {
  std::shared_ptr<Exchange> exchange() const {
    return std::make_shared<Exchange>(Request(), inbox, 1'000);
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

}  // namespace
}  // namespace millrace::http
