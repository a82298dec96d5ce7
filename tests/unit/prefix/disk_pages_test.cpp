#include "engine/core/prefix/disk_pages.hpp"

#include <gtest/gtest.h>

#include <numeric>

#include "schemas/base/fault_env.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t page_tokens = 4;
// Two pages are a whole segment.
const PageKind kind{"0123456789abcdef0123456789abcdef", page_tokens, 4 * limits::MiB};
constexpr std::uint64_t segment_bytes = 2 * 4 * limits::MiB + 4096;  // and its header

// A device that is done at once.
class ReadyTransport final : public PageTransport {
 public:
  Result<std::vector<DeviceEvent>> read_pages(std::span<const PageId>, std::span<char>) override {
    return std::vector<DeviceEvent>();
  }
  Result<std::vector<DeviceEvent>> write_pages(std::span<const PageId>,
                                               std::span<const char>) override {
    return std::vector<DeviceEvent>();
  }
  Status wait(std::span<const DeviceEvent>) override { return {}; }
};

class DiskPagesTest : public testing::Test {
 protected:
  std::unique_ptr<DiskTier> open(std::uint64_t bytes) {
    auto tier = DiskTier::open(env_, {"/tier", bytes, kind});
    EXPECT_TRUE(tier) << tier.error().text();
    return *std::move(tier);
  }
  // Twelve segments: more than a fetch asks for at once.
  void save_long_path() {
    const auto tier = open(limits::GiB);
    for (std::uint32_t page = 0; page < pages; page += 2) {
      const auto number =
          tier->reserve(Tokens(path_.begin(), path_.begin() + (page + 2) * page_tokens), page);
      tier->save(number, std::vector<char>(2 * kind.page_bytes, 'x'));
    }
  }
  // How much of the path comes back while somebody else's segment is saved.
  std::uint32_t fetch_while_another_is_saved(std::uint64_t segments) {
    DiskPages disk(open(segments * segment_bytes), kind, transport_);
    EXPECT_EQ(disk.find(path_, 0), pages);
    std::vector<PageId> ids(pages);
    std::iota(ids.begin(), ids.end(), 0);
    disk.fetch(1, path_, 0, ids);
    disk.offer(Tokens(2 * page_tokens, 9));
    const DiskPages::Held held = [](std::span<const TokenId> tokens) {
      return tokens.front() == 9 ? std::vector<PageId>{100, 101} : std::vector<PageId>();
    };
    std::uint32_t came = 0;
    while (disk.fetching()) {
      for (const auto& fetched : disk.wait(held)) came += fetched.pages;
    }
    return came;
  }

  static constexpr std::uint32_t pages = 24;
  const Tokens path_ = Tokens(pages * page_tokens, 7);
  std::shared_ptr<FaultEnv> env_ = std::make_shared<FaultEnv>();
  ReadyTransport transport_;
};

TEST_F(DiskPagesTest, ALongPathComesBackWhole) {
  save_long_path();
  EXPECT_EQ(fetch_while_another_is_saved(13), pages);
}

// The folder is full: the new segment takes the place of one that the fetch has yet to ask for.
TEST_F(DiskPagesTest, ASegmentThatGoesDuringAFetchEndsTheHitThere) {
  save_long_path();
  const std::uint32_t came = fetch_while_another_is_saved(12);
  EXPECT_GE(came, 16u);  // what was asked for at once
  EXPECT_LT(came, pages);
}

}  // namespace
}  // namespace millrace::engine
