// The thread beside a server's: what waits has a bound, and nobody waits for the thread.
#include "http/work_thread.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <thread>
#include <vector>

namespace millrace::http {
namespace {

TEST(WorkThread, DoesWhatItTookInTurnAndRefusesMore) {
  std::promise<void> begun, go;
  std::vector<int> done;
  std::promise<void> last;
  WorkThread thread(2);
  ASSERT_TRUE(thread.add([&] {
    begun.set_value();
    go.get_future().wait();
  }));
  begun.get_future().wait();
  EXPECT_TRUE(thread.add([&] { done.push_back(1); }));
  EXPECT_TRUE(thread.add([&] {
    done.push_back(2);
    last.set_value();
  }));
  EXPECT_FALSE(thread.add([&] { done.push_back(3); }));
  go.set_value();
  last.get_future().wait();
  EXPECT_EQ(done, (std::vector<int>{1, 2}));
}

TEST(WorkThread, ItsEndWaitsForTheWorkUnderWay) {
  std::promise<void> begun;
  bool ended = false;
  {
    WorkThread thread(1);
    thread.add([&] {
      begun.set_value();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ended = true;
    });
    begun.get_future().wait();
  }
  EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace millrace::http
