#include "engine/core/prefix/disk_pages.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/core/prefix/disk_tier.hpp"
#include "schemas/base/fault_env.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t page_tokens = 4;
// Two of these pages fill a segment.
const PageKind kind{"0123456789abcdef0123456789abcdef", page_tokens, 4 * limits::MiB};
constexpr std::uint64_t segment_bytes = 2 * 4 * limits::MiB + 4096;  // and its header

// A device whose transfers are done at once. The bytes that it reads are 'x'.
class ReadyTransport final : public PageTransport {
 public:
  std::uint32_t reads = 0;
  bool loses = false;  // every transfer fails

  Result<std::vector<DeviceEvent>> read_pages(std::span<const PageId>,
                                              std::span<char> into) override {
    ++reads;
    std::ranges::fill(into, 'x');
    return std::vector<DeviceEvent>();
  }
  Result<std::vector<DeviceEvent>> write_pages(std::span<const PageId>,
                                               std::span<const char>) override {
    return std::vector<DeviceEvent>();
  }
  Result<std::vector<DeviceEvent>> read_state(PageId, std::span<char> into) override {
    return read_pages({}, into);
  }
  Result<std::vector<DeviceEvent>> write_state(PageId, std::span<const char>) override {
    return std::vector<DeviceEvent>();
  }
  Status wait(std::span<const DeviceEvent>) override {
    return loses ? fail(Code::device_error, "lost", "") : Status();
  }
};

class DiskPagesTest : public testing::Test {
 protected:
  std::unique_ptr<DiskTier> open(std::uint64_t bytes) {
    auto tier = DiskTier::open(env_, {"/tier", bytes, kind});
    EXPECT_TRUE(tier) << tier.error().text();
    return *std::move(tier);
  }
  void SetUp() override {
    set_up_logging({LogLevel::warn, false, [this](std::string_view line) { log_ += line; }});
  }
  void TearDown() override { set_up_logging({LogLevel::off, false, {}}); }
  static DiskPages::Held all_held() {
    return [](std::span<const TokenId> tokens) {
      HeldPages out{std::vector<PageId>(tokens.size() / page_tokens), 0};
      std::iota(out.pages.begin(), out.pages.end(), 0);
      return out;
    };
  }
  // Waits until so much of a path is in its files, or nothing is left to write.
  static std::uint32_t written(DiskPages& disk, const Tokens& path, std::uint32_t count) {
    for (int i = 0; i < 100 && disk.find(path, 0) < count; ++i) disk.wait(all_held());
    return disk.find(path, 0);
  }
  // Saves twelve segments, more than a fetch requests at once.
  void save_long_path() {
    const auto tier = open(limits::GiB);
    for (std::uint32_t page = 0; page < pages; page += 2) {
      const auto number =
          tier->reserve(Tokens(path_.begin(), path_.begin() + (page + 2) * page_tokens), page)
              .number;
      tier->save(number, std::vector<char>(2 * kind.page_bytes, 'x'));
    }
  }
  // Returns how many pages of the path are fetched while another path's segment is saved.
  std::uint32_t fetch_while_another_is_saved(std::uint64_t segments) {
    DiskPages disk(open(segments * segment_bytes), kind, transport_);
    EXPECT_EQ(disk.find(path_, 0), pages);
    std::vector<PageId> ids(pages);
    std::iota(ids.begin(), ids.end(), 0);
    disk.fetch(1, path_, 0, ids, no_page);
    disk.offer(Tokens(2 * page_tokens, 9));
    const DiskPages::Held held = [](std::span<const TokenId> tokens) {
      return tokens.front() == 9 ? HeldPages{{100, 101}} : HeldPages();
    };
    std::uint32_t came = 0;
    while (disk.fetching()) {
      for (const auto& fetched : disk.wait(held)) came += fetched.pages;
    }
    return came;
  }

  static constexpr std::uint32_t pages = 24;
  const Tokens path_ = Tokens(pages * page_tokens, 7);
  std::string log_;
  std::shared_ptr<FaultEnv> env_ = std::make_shared<FaultEnv>();
  ReadyTransport transport_;
};

TEST_F(DiskPagesTest, ALongPathComesBackWhole) {
  save_long_path();
  EXPECT_EQ(fetch_while_another_is_saved(13), pages);
}

// The folder is full: the new segment replaces one that the fetch has yet to request.
TEST_F(DiskPagesTest, ASegmentThatGoesDuringAFetchEndsTheHitThere) {
  save_long_path();
  const std::uint32_t came = fetch_while_another_is_saved(12);
  EXPECT_GE(came, 16u);  // the pages that were requested at once
  EXPECT_LT(came, pages);
}

// If the tier has no room for the whole path, each part of it is read from the device at most once
// and its beginning is kept. Paths that were offered after it are saved, too.
TEST_F(DiskPagesTest, APathLongerThanTheTierIsSavedAsFarAsItGoes) {
  const Tokens other(2 * page_tokens, 9);
  for (const std::uint64_t bound : {4 * kind.page_bytes + 4096, 9 * kind.page_bytes + 8192}) {
    const auto room = static_cast<std::uint32_t>(bound / kind.page_bytes);
    env_ = std::make_shared<FaultEnv>();
    transport_.reads = 0;
    log_.clear();
    {
      DiskPages disk(open(bound), kind, transport_);
      for (int use = 0; use < 3; ++use) {
        disk.offer(path_);
        disk.flush(all_held());
      }
      EXPECT_EQ(transport_.reads, room);  // a page each
      EXPECT_EQ(written(disk, path_, room), room);
    }
    EXPECT_EQ(std::ranges::count(log_, '\n'), 1) << log_;
    EXPECT_NE(log_.find("too long for --prefix-disk"), std::string::npos) << log_;
    DiskPages disk(open(bound), kind, transport_);
    EXPECT_EQ(disk.find(path_, 0), room);
    disk.offer(path_);
    disk.offer(other);
    disk.flush(all_held());
    EXPECT_EQ(written(disk, other, 2), 2u);
    EXPECT_EQ(disk.find(path_, 0), room - 2) << "its end";
  }
}

// The same with the calls of the engine's steps, which do not wait.
TEST_F(DiskPagesTest, APathLongerThanTheTierHoldsUpNobodyWhileStepsRun) {
  DiskPages disk(open(4 * kind.page_bytes + 4096), kind, transport_);
  const Tokens other(page_tokens, 9);
  disk.offer(path_);
  disk.offer(other);
  for (int i = 0; i < 100'000 && disk.find(other, 0) == 0; ++i) {
    disk.enqueue(all_held());
    disk.complete(disk.enqueued());
  }
  EXPECT_EQ(transport_.reads, 4u + 1);
  EXPECT_EQ(disk.find(path_, 0), 3u);
}

// A tier of one page: a file names all tokens before its page, so only the first page of a path
// fits.
TEST_F(DiskPagesTest, ATierOfOnePageHoldsOne) {
  const std::uint64_t one = segment_file_bytes({kind, Tokens(page_tokens), 0, 1});
  DiskPages disk(open(one), kind, transport_);
  disk.offer(path_);
  disk.flush(all_held());
  EXPECT_EQ(transport_.reads, 1u);
  EXPECT_EQ(written(disk, path_, 1), 1u);
}

// A lost device must not keep the engine from ending.
TEST_F(DiskPagesTest, WhatTheDeviceLosesIsTriedOnce) {
  transport_.loses = true;
  DiskPages disk(open(limits::GiB), kind, transport_);
  disk.offer(path_);
  disk.flush(all_held());
  EXPECT_EQ(transport_.reads, 1u);
  EXPECT_EQ(disk.find(path_, 0), 0u);
  transport_.loses = false;
  disk.offer(path_);  // used again
  disk.flush(all_held());
  EXPECT_EQ(written(disk, path_, pages), pages);
}

}  // namespace
}  // namespace millrace::engine
