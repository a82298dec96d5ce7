// States of recurrent layers in the disk tier: their files, what a reader finds, and what goes
// first.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "engine/core/prefix/disk_pages.hpp"
#include "engine/core/prefix/disk_tier.hpp"
#include "schemas/base/fault_env.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t state_page_tokens = 4;
constexpr std::uint64_t bytes_of_state = 1000, bytes_of_page = 64;

Tokens path_of(TokenId first, std::uint32_t pages) {
  Tokens out(std::size_t{pages} * state_page_tokens);
  std::iota(out.begin(), out.end(), first);
  return out;
}
std::span<const TokenId> part_of(const Tokens& path, std::uint32_t pages) {
  return std::span(path).first(std::size_t{pages} * state_page_tokens);
}

// A device whose transfers are done at once. What it reads from is a letter: p for pages, s for
// states.
class LetterTransport final : public PageTransport {
 public:
  std::string calls;  // r: pages were read, R: a state; w and W: written
  std::vector<char> state;

  Result<std::vector<DeviceEvent>> read_pages(std::span<const PageId>,
                                              std::span<char> into) override {
    return fill('r', into, 'p');
  }
  Result<std::vector<DeviceEvent>> write_pages(std::span<const PageId>,
                                               std::span<const char>) override {
    calls += 'w';
    return {};
  }
  Result<std::vector<DeviceEvent>> read_state(PageId, std::span<char> into) override {
    return fill('R', into, 's');
  }
  Result<std::vector<DeviceEvent>> write_state(PageId, std::span<const char> bytes) override {
    calls += 'W';
    state.assign(bytes.begin(), bytes.end());
    return {};
  }
  Status wait(std::span<const DeviceEvent>) override { return {}; }

 private:
  Result<std::vector<DeviceEvent>> fill(char call, std::span<char> into, char letter) {
    calls += call;
    std::ranges::fill(into, letter);
    return {};
  }
};

class StateSegments : public testing::Test {
 protected:
  void SetUp() override {
    set_up_logging({LogLevel::warn, false, [this](std::string_view line) { log_ += line; }});
  }
  void TearDown() override {
    tier_.reset();
    set_up_logging({LogLevel::off, false, {}});
  }
  Result<std::unique_ptr<DiskTier>> try_open(std::uint64_t bytes) {
    return DiskTier::open(env_, {"/tier", bytes, kind_});
  }
  void open(std::uint64_t bytes = 1u << 20) {
    tier_.reset();
    auto opened = try_open(bytes);
    ASSERT_TRUE(opened) << opened.error().text();
    tier_ = *std::move(opened);
  }
  void write(DiskTier::Place place, std::size_t bytes, char letter) {
    ASSERT_NE(place.number, 0u);
    tier_->save(place.number, std::vector<char>(bytes, letter));
    while (!tier_->index().is_readable(place.number)) {
      tier_->wait();
      tier_->take();
    }
  }
  void save_pages(const Tokens& path, std::uint32_t first = 0) {
    const std::size_t pages = path.size() / state_page_tokens - first;
    write(tier_->reserve(path, first), pages * kind_.page_bytes, 'p');
  }
  void save_state(std::span<const TokenId> path) {
    write(tier_->reserve_state(Tokens(path.begin(), path.end())), kind_.state_bytes, 's');
  }
  std::uint32_t known(const Tokens& path, std::uint32_t from = 0) {
    return tier_->index().find(path, from);
  }
  // Loads a path's pieces and returns their bytes, up to the first that cannot be read.
  std::string load(std::span<const TokenId> path, std::uint32_t first = 0) {
    const auto pieces = tier_->index().pieces(path, first);
    for (const auto& piece : pieces) tier_->load(5, piece);
    std::string out;
    bool whole = true;
    for (std::size_t answers = 0; answers < pieces.size();) {
      tier_->wait();
      for (const auto& loaded : tier_->take()) {
        ++answers;
        whole = whole && !loaded.bytes.empty();
        if (whole) out.append(loaded.bytes.begin(), loaded.bytes.end());
      }
    }
    return out;
  }
  std::vector<std::string> files() {
    std::vector<std::string> out = env_->list("/tier").value();
    std::erase(out, "lock");
    return out;
  }
  std::uint64_t state_file(std::uint32_t pages) const {
    return segment_file_bytes({kind_, {}, pages, 0});
  }
  std::uint64_t page_file(std::uint32_t first, std::uint32_t count) const {
    return segment_file_bytes({kind_, {}, first, count});
  }
  std::size_t warnings() const { return static_cast<std::size_t>(std::ranges::count(log_, '\n')); }
  // The tree has all pages of a path, and the state after its first `with_state`.
  static DiskPages::Held held(std::uint32_t with_state) {
    return [with_state](std::span<const TokenId> tokens) {
      const auto pages = std::min<std::size_t>(with_state, tokens.size() / state_page_tokens);
      HeldPages out{std::vector<PageId>(pages), 7};
      std::iota(out.pages.begin(), out.pages.end(), 0);
      return pages == with_state ? out : HeldPages();
    };
  }

  PageKind kind_{"0123456789abcdef0123456789abcdef", state_page_tokens, bytes_of_page,
                 bytes_of_state};
  std::string log_;
  std::shared_ptr<FaultEnv> env_ = std::make_shared<FaultEnv>();
  std::unique_ptr<DiskTier> tier_;
};

TEST_F(StateSegments, APathIsKnownUpToItsLastState) {
  const Tokens path = path_of(0, 10);
  open();
  save_pages(path);
  EXPECT_EQ(known(path), 0u);
  save_state(part_of(path, 3));
  save_state(part_of(path, 7));
  for (int start = 0; start < 2; ++start) {
    EXPECT_EQ(known(path), 7u);
    EXPECT_EQ(known(path, 3), 7u);
    EXPECT_EQ(known(path, 7), 7u);
    EXPECT_EQ(known(path_of(0, 6)), 3u);
    EXPECT_FALSE(tier_->index().has_state(path));
    EXPECT_TRUE(tier_->index().has_state(part_of(path, 7)));
    EXPECT_EQ(load(part_of(path, 7)),
              std::string(7 * bytes_of_page, 'p') + std::string(bytes_of_state, 's'));
    EXPECT_EQ(load(part_of(path, 3), 3), std::string(bytes_of_state, 's')) << "the state alone";
    open();
  }
  EXPECT_EQ(log_, "");
}

TEST_F(StateSegments, AStateBehindAGapIsNotKnown) {
  const Tokens path = path_of(0, 6);
  open();
  save_pages(path_of(0, 2));
  save_pages(path, 4);
  save_state(path);
  EXPECT_EQ(known(path), 0u);
  EXPECT_EQ(known(path, 4), 6u) << "useful if the tree has the pages before";
}

// Damages every byte of a state's file, one after the other.
TEST_F(StateSegments, ADamagedStateIsAMissWithOneWarning) {
  const Tokens path = path_of(0, 2);
  open();
  save_pages(path);
  save_state(path);
  tier_.reset();
  const std::string name = "/tier/" + files().back();
  const std::string whole = read_file(*env_, name, 1u << 20).value();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    ASSERT_TRUE(write_file_atomically(*env_, name, broken));
    log_.clear();
    open();
    const bool found = known(path) == 2;
    if (found) {
      EXPECT_EQ(load(path), std::string(2 * bytes_of_page, 'p')) << at;
    }
    EXPECT_EQ(known(path), 0u) << at;
    EXPECT_EQ(warnings(), 1u) << at << ": " << log_;
    tier_.reset();
    EXPECT_EQ(files().size(), 1u) << at;
  }
}

TEST_F(StateSegments, FilesOfAnotherKindOrFormatAreNotReadAndGoFirst) {
  const Tokens path = path_of(0, 2);
  open();
  save_pages(path);
  save_state(path);
  tier_.reset();
  const std::string old = "MRKVSEG1" + std::string(300, 'x');
  ASSERT_TRUE(write_file_atomically(*env_, "/tier/00000000000000aa.kv", old));
  kind_.state_bytes = 500;
  open();
  EXPECT_EQ(known(path), 0u);
  EXPECT_EQ(warnings(), 1u) << log_;
  EXPECT_NE(log_.find("of another model or engine"), std::string::npos) << log_;
  EXPECT_EQ(tier_->index().size(), 3u);
  kind_.state_bytes = bytes_of_state;
  const std::uint64_t mine = page_file(0, 2) + state_file(2);
  open(mine + old.size());
  EXPECT_EQ(tier_->index().bytes(), mine + old.size());
  open(mine);
  EXPECT_EQ(known(path), 2u);
  tier_.reset();
  EXPECT_EQ(files().size(), 2u) << "the old file is removed";
}

// A state at the end of a path goes before its pages, and both before what they begin with.
TEST_F(StateSegments, EndsGoBeforeBeginningsAndStatesBeforeTheirPages) {
  const Tokens path = path_of(0, 4), other = path_of(100, 1);
  open();
  save_pages(path_of(0, 2));
  save_state(part_of(path, 2));
  save_pages(path, 2);
  save_state(path);
  EXPECT_EQ(known(path), 4u);
  const std::uint64_t all = tier_->index().bytes();
  open(all - 1);
  EXPECT_EQ(known(path), 2u);
  EXPECT_EQ(tier_->index().first_missing(path), 4u) << "the last pages are there";
  open(page_file(0, 2) + state_file(2));
  EXPECT_EQ(tier_->index().first_missing(path), 2u);
  EXPECT_EQ(known(path), 2u);
  save_pages(other);
  EXPECT_EQ(known(path), 0u);
  EXPECT_EQ(tier_->index().first_missing(path), 2u) << "the state made room";
}

TEST_F(StateSegments, TheLimitCountsStates) {
  const std::uint64_t least = page_file(0, 1) + state_file(1);
  const auto refused = try_open(least - 1);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_value);
  EXPECT_NE(refused.error().message.find("a single page and the state after it have"),
            std::string::npos)
      << refused.error().message;
  open(least);
  for (TokenId first = 0; first < 300; first += 100) {
    save_pages(path_of(first, 1));
    save_state(path_of(first, 1));
    EXPECT_EQ(tier_->index().bytes(), least);
    EXPECT_EQ(known(path_of(first, 1)), 1u);
  }
  EXPECT_FALSE(tier_->holds(path_of(0, 2), 0));
}

// Of a model without keys and values only states have files.
TEST_F(StateSegments, PagesOfNoBytesAreAlwaysThere) {
  kind_.page_bytes = 0;
  const Tokens path = path_of(0, 10);
  open(state_file(10) + state_file(3));
  save_state(path);
  EXPECT_EQ(known(path), 10u);
  EXPECT_EQ(known(path_of(0, 9)), 0u);
  EXPECT_EQ(tier_->index().first_missing(path_of(50, 8)), 8u);
  save_state(part_of(path, 3));
  EXPECT_EQ(known(path_of(0, 9)), 3u);
  EXPECT_EQ(load(path), std::string(bytes_of_state, 's'));
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(StateSegments, APathIsSavedUpToItsStateAndComesBack) {
  for (const std::uint64_t page_bytes : {bytes_of_page, std::uint64_t{0}}) {
    kind_.page_bytes = page_bytes;
    env_ = std::make_shared<FaultEnv>();
    const Tokens path = path_of(0, 9);
    LetterTransport transport;
    open();
    {
      DiskPages disk(std::move(tier_), kind_, transport);
      for (int use = 0; use < 3; ++use) {
        disk.offer(path);
        disk.flush(held(6));
      }
    }
    EXPECT_EQ(transport.calls, page_bytes > 0 ? "rR" : "R") << "once";
    EXPECT_EQ(files().size(), page_bytes > 0 ? 2u : 1u);
    open();
    DiskPages disk(std::move(tier_), kind_, transport);
    EXPECT_EQ(disk.find(path, 0), 6u);
    const std::vector<PageId> ids(6);
    disk.fetch(3, part_of(path, 6), 0, ids, 2);
    std::vector<DiskPages::Fetched> came;
    while (disk.fetching()) {
      for (const auto& each : disk.wait(held(0))) came.push_back(each);
    }
    ASSERT_EQ(came.size(), 1u);
    EXPECT_EQ(came[0].ticket, 3u);
    EXPECT_EQ(came[0].pages, 6u);
    EXPECT_TRUE(came[0].state);
    EXPECT_EQ(transport.state, std::vector<char>(bytes_of_state, 's'));
  }
}

// Pages without a state are of no use, so neither is saved if there is no room for both.
TEST_F(StateSegments, APathThatDoesNotFitWithItsStateIsNotSaved) {
  const Tokens path = path_of(0, 9), shorter = path_of(100, 2);
  LetterTransport transport;
  open(page_file(0, 9) + state_file(9) - 1);
  DiskPages disk(std::move(tier_), kind_, transport);
  for (int use = 0; use < 3; ++use) {
    disk.offer(path);
    disk.flush(held(9));
  }
  EXPECT_EQ(transport.calls, "");
  EXPECT_EQ(warnings(), 1u) << log_;
  EXPECT_NE(log_.find("too large for --prefix-disk: it is not kept"), std::string::npos) << log_;
  disk.offer(shorter);
  disk.flush(held(2));
  EXPECT_EQ(transport.calls, "rR");
}

}  // namespace
}  // namespace millrace::engine
