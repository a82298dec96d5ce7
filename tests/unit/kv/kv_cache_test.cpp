#include "engine/core/kv/kv_cache.hpp"

#include <gtest/gtest.h>

#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using testing::must;
using Ids = std::vector<PageId>;

// Three layers, the second with a window; one head of 32 channels in halves: 2 KiB a page.
class KvCacheTest : public ::testing::Test {
 protected:
  std::vector<std::byte> read(const Ids& ids, std::byte before = {}) {
    std::vector<std::byte> bytes(ids.size() / 2 * page_bytes, before);
    const auto events = must(cache_.read_pages(*device_, ids, bytes));
    for (const DeviceEvent& event : events) must(device_->wait(event));
    return bytes;
  }
  void write(const Ids& ids, const std::vector<std::byte>& bytes) {
    const auto events = must(cache_.write_pages(*device_, ids, bytes));
    for (const DeviceEvent& event : events) must(device_->wait(event));
  }
  // Pages whose bytes name page and layer.
  static std::vector<std::byte> pages(std::uint8_t first, std::size_t count) {
    std::vector<std::byte> out;
    for (std::size_t i = 0; i < count * 3; ++i) {
      out.insert(out.end(), layer_bytes, std::byte(first + i));
    }
    return out;
  }

  static constexpr std::size_t layer_bytes = 2048, page_bytes = 3 * layer_bytes;
  CacheShape shape_{
      .shape = KvShape(3, {1, 32}), .layers = std::vector<KvCodecs>(3), .windows = {0, 40, 0}};
  std::unique_ptr<Device> device_ = testing::open_device();
  KvCache cache_ = must(KvCache::create(*device_, shape_, 100 * page_bytes, {1, 16, 16}));
};

TEST_F(KvCacheTest, GroupsHaveThePagesOfTheRuleAndSaySo) {
  ASSERT_EQ(cache_.groups().size(), 2u);
  EXPECT_EQ(cache_.groups()[1].pages, 8u);  // 40 + 2 * 16 + 32 positions, and the quarter
  EXPECT_EQ(cache_.groups()[1].window, 40u);
  EXPECT_EQ(cache_.page_count(), (100u * 3 - 8) / 2);
  EXPECT_EQ(cache_.text(), "2 layers hold 2336 tokens, 1 of window 40 hold 128");
  shape_.windows.clear();
  EXPECT_EQ(must(KvCache::create(*device_, shape_, 5 * page_bytes)).text(), "");
}

TEST_F(KvCacheTest, StatesHaveMemoryOfTheirOwn) {
  shape_.windows.clear();
  shape_.shape.layers[1] = {};
  shape_.states = {0, 4096, 0};
  const KvCache cache = must(KvCache::create(*device_, shape_, 20 * 4096, {2, 16, 16}));
  EXPECT_EQ(cache.state_count(), 2u + 4);
  EXPECT_EQ(cache.states(1).size_bytes(), 6u * 4096);
  EXPECT_EQ(cache.states(0).size_bytes(), 0u);
  ASSERT_EQ(cache.pools().size(), 2u);
  EXPECT_TRUE(cache.pools()[1].states);
  EXPECT_EQ(cache.pools()[1].pages, 6u);
  EXPECT_EQ(cache.text(), "2 layers hold 224 tokens, 6 states of 4 KiB");
}

TEST_F(KvCacheTest, StatesAreReadAsTheyWereWritten) {
  shape_.windows.clear();
  shape_.states = {0, 4096, 256};
  const KvCache cache = must(KvCache::create(*device_, shape_, 20 * page_bytes, {2, 16, 16}));
  std::vector<std::byte> bytes(4096 + 256), got(bytes.size());
  for (const PageId state : {0u, cache.state_count() - 1}) {
    std::fill_n(bytes.begin(), 4096, std::byte(state + 1));
    std::fill_n(bytes.begin() + 4096, 256, std::byte(state + 50));
    for (const auto& event : must(cache.write_state(*device_, state, bytes))) {
      must(device_->wait(event));
    }
  }
  for (const auto& event : must(cache.read_state(*device_, cache.state_count() - 1, got))) {
    must(device_->wait(event));
  }
  EXPECT_EQ(got, bytes);
  for (const auto& event : must(cache.read_state(*device_, 0, got))) must(device_->wait(event));
  EXPECT_EQ(got.front(), std::byte{1});
  EXPECT_EQ(got.back(), std::byte{50});
  EXPECT_FALSE(cache.read_state(*device_, cache.state_count(), got));
  EXPECT_FALSE(cache.write_state(*device_, 0, std::span(bytes).first(4096)));
  EXPECT_FALSE(cache_.read_state(*device_, 0, {})) << "it has none";
}

TEST_F(KvCacheTest, PagesAreReadAsTheyWereWrittenWhateverTheirIds) {
  const auto bytes = pages(1, 4);
  // Of the windowed group, the parts of pages 1 and 2 are neither written nor read.
  const Ids ids{7, 0, 8, no_page, 9, no_page, 3, 6};
  write(ids, bytes);
  auto want = bytes;
  for (const std::size_t page : {1u, 2u}) {
    const auto part = want.begin() + static_cast<std::ptrdiff_t>(page * page_bytes + layer_bytes);
    std::fill_n(part, layer_bytes, std::byte{99});
  }
  EXPECT_EQ(read(ids, std::byte{99}), want);
}

TEST_F(KvCacheTest, ACopyMovesThePageOfOneGroup) {
  write({1, 1, 2, 2}, pages(1, 2));
  must(cache_.copy_page(*device_, {1, 2, 1}));
  auto want = pages(4, 1);
  std::fill_n(want.begin() + layer_bytes, layer_bytes, std::byte{2});  // of page 1's second layer
  EXPECT_EQ(read({2, 2}), want);
  must(cache_.copy_page(*device_, {1, 2, 0}));
  EXPECT_EQ(read({2, 2}), pages(1, 1));
}

TEST_F(KvCacheTest, PagesOutsideAGroupAreRefused) {
  std::vector<std::byte> bytes(page_bytes);
  const PageId after = cache_.groups()[1].pages;
  EXPECT_FALSE(cache_.read_pages(*device_, Ids{after, after}, bytes));
  EXPECT_TRUE(cache_.read_pages(*device_, Ids{after, after - 1}, bytes));
  EXPECT_FALSE(cache_.write_pages(*device_, Ids{0}, bytes));
  EXPECT_FALSE(cache_.write_pages(*device_, Ids{0, 0, 1, 1}, bytes));
  EXPECT_FALSE(cache_.copy_page(*device_, {0, after, 1}));
  EXPECT_FALSE(cache_.copy_page(*device_, {0, 1, 2}));
  must(device_->finish());
}

}  // namespace
}  // namespace millrace::engine
