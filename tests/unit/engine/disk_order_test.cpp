// The order of writes of pages from disk to the device, and of the starts of steps.
#include <unistd.h>

#include "engine/core/prefix/disk_pages.hpp"
#include "engine/core/prefix/disk_tier.hpp"
#include "schemas/base/fault_env.hpp"
#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t page_tokens = 16, page_bytes = 64;

// Records writes among the calls of the runner.
class NotedTransport final : public PageTransport {
 public:
  explicit NotedTransport(std::string& calls) : calls_(&calls) {}
  Result<std::vector<DeviceEvent>> read_pages(std::span<const PageId>, std::span<char>) override {
    return {};
  }
  Result<std::vector<DeviceEvent>> write_pages(std::span<const PageId>,
                                               std::span<const char>) override {
    *calls_ += 'd';
    return {};
  }
  Result<std::vector<DeviceEvent>> read_state(PageId, std::span<char>) override { return {}; }
  Result<std::vector<DeviceEvent>> write_state(PageId, std::span<const char>) override {
    *calls_ += 'd';
    return {};
  }
  Status wait(std::span<const DeviceEvent>) override { return {}; }

 private:
  std::string* calls_;
};

// Each call of the clock gives the disk time to answer.
class SlowClock final : public Clock {
 public:
  std::int64_t monotonic_us() const override {
    ::usleep(5000);
    return clock_.monotonic_us();
  }
  std::int64_t wall_us() const override { return clock_.wall_us(); }

 private:
  SystemClock clock_;
};

using DiskOrder = LoopTest;

// A plan may copy from a page and, at the same time, give that page to a fetch from disk.
TEST_F(DiskOrder, WhatAPlanAsksForComesAfterItsStep) {
  const auto env = std::make_shared<FaultEnv>();
  const PageKind kind{"f00d", page_tokens, page_bytes};
  const DiskTierOptions options{"/tier", 1 << 20, kind};
  const Tokens stored(4 * page_tokens, 100);
  {
    auto tier = DiskTier::open(env, options);
    ASSERT_TRUE(tier) << tier.error().text();
    const auto number = (*tier)->reserve(stored, 0).number;
    (*tier)->save(number, std::vector<char>(4 * page_bytes, 'x'));
  }
  auto tier = DiskTier::open(env, options);
  ASSERT_TRUE(tier) << tier.error().text();
  NotedTransport transport(runner_.calls);
  DiskPages disk(*std::move(tier), kind, transport);
  open(64, {.prefix_cache = true, .fingerprint = "f00d", .store = &disk});
  LoopOptions loop;
  loop.scheduler = {.prefix_cache = true, .fingerprint = "f00d", .store = &disk};
  loop.disk = &disk;
  const SlowClock slow;
  loop_ = std::make_unique<EngineLoop>(loop, context_, *pools_, runner_, slow);

  // One request computes its prompt; in the same plan another finds its prompt on disk.
  GenerationRequest computed = request(1, 40, "a");
  computed.prompt = Tokens(40, 200);
  ASSERT_TRUE(loop_->add(1, computed));
  ASSERT_TRUE(loop_->add(2, request(2, 5 * page_tokens, "b")));
  std::vector<Event> events;
  for (int i = 0; i < 100 && loop_->busy(); ++i) ASSERT_TRUE(loop_->step(events));
  EXPECT_FALSE(loop_->busy());
  EXPECT_EQ(loop_->counters().disk_tokens, 4u * page_tokens);
  EXPECT_EQ(runner_.calls.substr(0, 3), "fsd") << runner_.calls;
  loop_.reset();  // before the objects that it uses
}

}  // namespace
}  // namespace millrace::engine
