#include "engine/core/prefix/disk_tier.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <future>

#include "schemas/base/fault_env.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t page_tokens = 4;
constexpr std::uint64_t page_bytes = 64;
const PageKind kind{"0123456789abcdef0123456789abcdef", page_tokens, page_bytes};

Tokens tokens_from(TokenId first, std::uint32_t count) {
  Tokens out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

// Packed pages whose bytes name their path and number.
std::vector<char> packed(const Tokens& path, std::uint32_t first_page) {
  std::vector<char> out;
  for (std::size_t page = first_page; page < path.size() / page_tokens; ++page) {
    for (std::uint64_t i = 0; i < page_bytes; ++i) {
      out.push_back(static_cast<char>(path[page * page_tokens] * 7 + page + i));
    }
  }
  return out;
}

class DiskTierTest : public testing::Test {
 protected:
  void SetUp() override {
    set_up_logging({LogLevel::warn, false, [this](std::string_view line) { log_ += line; }});
  }
  void TearDown() override {
    tier_.reset();
    set_up_logging({LogLevel::off, false, {}});
  }
  void open(std::uint64_t bytes = 1u << 20, const PageKind& of = kind) {
    tier_.reset();
    auto opened = DiskTier::open(env_, {"/tier", bytes, of});
    ASSERT_TRUE(opened) << opened.error().text();
    tier_ = *std::move(opened);
  }
  void save(const Tokens& path, std::uint32_t first_page = 0) {
    const auto number = tier_->reserve(path, first_page).number;
    if (number == 0) return;  // the tier has no room
    tier_->save(number, packed(path, first_page));
    while (tier_->index().contains(number) && !tier_->index().is_readable(number)) {
      tier_->wait();
      tier_->take();
    }
  }
  void await(const Tokens& path) {
    for (; tier_->index().find(path, 0) == 0; tier_->take()) tier_->wait();
  }
  // Loads the pages of a path from page `first` on.
  std::vector<char> load(const Tokens& path, std::uint32_t first = 0) {
    std::vector<char> out;
    const auto known = std::span(path).first(tier_->index().find(path, first) * page_tokens);
    const auto pieces = tier_->index().pieces(known, first);
    for (const auto& piece : pieces) tier_->load(5, piece);
    for (std::size_t answers = 0; answers < pieces.size();) {
      tier_->wait();
      for (const auto& loaded : tier_->take()) {
        EXPECT_EQ(loaded.ticket, 5u);
        out.insert(out.end(), loaded.bytes.begin(), loaded.bytes.end());
        ++answers;
      }
    }
    return out;
  }
  std::vector<std::string> files() {
    std::vector<std::string> out = env_->list("/tier").value();
    std::erase(out, "lock");
    return out;
  }
  std::string file() { return "/tier/" + files().at(0); }
  std::size_t warnings() const { return static_cast<std::size_t>(std::ranges::count(log_, '\n')); }

  std::shared_ptr<FaultEnv> env_ = std::make_shared<FaultEnv>();
  std::unique_ptr<DiskTier> tier_;
  std::string log_;
};

// A step of the engine waits in DiskTier::wait, and cancels and stops wait for the step.
TEST_F(DiskTierTest, ADiskThatHangsHoldsUpNobody) {
  open();
  std::promise<void> goes_on;
  std::shared_future<void> moment = goes_on.get_future();
  env_->set_hook([moment](std::string_view, const std::string&) {
    moment.wait();
    return Status();
  });
  const Tokens path = tokens_from(1, 8);
  const auto number = tier_->reserve(path, 0).number;
  tier_->save(number, packed(path, 0));
  tier_->wait();  // comes back
  EXPECT_TRUE(tier_->take().empty());
  EXPECT_EQ(tier_->index().find(path, 0), 0u);
  goes_on.set_value();
  await(path);
}

TEST_F(DiskTierTest, WhatWasSavedIsThereAfterARestart) {
  const Tokens path = tokens_from(0, 20);
  open();
  save(Tokens(path.begin(), path.begin() + 12));
  save(path, 3);
  EXPECT_EQ(load(path), packed(path, 0));
  open();
  EXPECT_EQ(load(path), packed(path, 0));
  EXPECT_EQ(load(path, 4), packed(path, 4));
  EXPECT_EQ(load(tokens_from(0, 11)), packed(tokens_from(0, 8), 0));
  EXPECT_TRUE(load(tokens_from(1, 20)).empty());
  EXPECT_EQ(tier_->index().first_missing(tokens_from(0, 40)), 5u);
  EXPECT_EQ(log_, "");
}

TEST_F(DiskTierTest, APieceInTheMiddleThatIsGoneEndsTheHitThere) {
  const Tokens path = tokens_from(0, 16);
  open();
  save(Tokens(path.begin(), path.begin() + 8));
  save(path, 2);
  EXPECT_EQ(files().size(), 2u);
  ASSERT_TRUE(env_->remove(file()));  // the older one
  open();
  EXPECT_TRUE(load(path).empty());
  EXPECT_EQ(load(path, 2), packed(path, 2));  // useful if the tree knows the beginning
}

// Damages every byte of a segment, one after the other: a miss and one warning, never other bytes.
TEST_F(DiskTierTest, ADamagedSegmentIsAMissWithOneWarning) {
  const Tokens path = tokens_from(0, 8);
  open();
  save(path);
  tier_.reset();
  const std::string name = file();
  const std::string whole = read_file(*env_, name, 1u << 20).value();
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    ASSERT_TRUE(write_file_atomically(*env_, name, broken));
    log_.clear();
    open();
    EXPECT_TRUE(load(path).empty()) << at;
    EXPECT_TRUE(load(path).empty()) << at;
    EXPECT_EQ(warnings(), 1u) << at << ": " << log_;
    tier_.reset();
    EXPECT_TRUE(files().empty()) << at;
  }
}

TEST_F(DiskTierTest, AHalfWrittenSegmentIsAMissWithOneWarning) {
  const Tokens path = tokens_from(0, 8);
  open();
  save(path);
  tier_.reset();
  const std::string name = file();
  const std::string whole = read_file(*env_, name, 1u << 20).value();
  for (std::size_t size = 0; size < whole.size(); size += 7) {
    ASSERT_TRUE(write_file_atomically(*env_, name, whole.substr(0, size)));
    log_.clear();
    open();
    EXPECT_TRUE(load(path).empty()) << size;
    EXPECT_EQ(warnings(), 1u) << size << ": " << log_;
    tier_.reset();
  }
  tier_.reset();
  ASSERT_TRUE(write_file_atomically(*env_, name + ".part", whole.substr(0, 50)));
  log_.clear();
  open();
  EXPECT_EQ(warnings(), 1u) << log_;
  EXPECT_TRUE(files().empty());
}

// Damage while the tier is open, between the look-up and the read.
TEST_F(DiskTierTest, ASegmentThatIsDamagedLaterIsAMissToo) {
  const Tokens path = tokens_from(0, 8);
  open();
  save(path);
  const std::string name = file();
  std::string bytes = read_file(*env_, name, 1u << 20).value();
  bytes.back() = static_cast<char>(bytes.back() + 1);
  ASSERT_TRUE(write_file_atomically(*env_, name, bytes));
  EXPECT_TRUE(load(path).empty());
  EXPECT_TRUE(load(path).empty());
  EXPECT_EQ(warnings(), 1u) << log_;
  save(path);  // computed again, saved again
  EXPECT_EQ(load(path), packed(path, 0));
}

// As if two paths shared a hash and so a file: the file's path is compared token by token.
TEST_F(DiskTierTest, AHashCollisionServesNoWrongPage) {
  const Tokens mine = tokens_from(0, 8), other = tokens_from(50, 8);
  open();
  save(mine);
  const std::string name = file();
  save(other);
  const auto names = files();
  const std::string others =
      "/tier/" + *std::ranges::find_if(names, [&](const auto& n) { return "/tier/" + n != name; });
  ASSERT_TRUE(env_->rename(others, name));  // whole, and of the same length
  EXPECT_TRUE(load(mine).empty());
  EXPECT_EQ(warnings(), 1u) << log_;
}

TEST_F(DiskTierTest, AnotherEnginesSegmentsAreNotReadAndGoFirst) {
  const Tokens path = tokens_from(0, 8), mine = tokens_from(100, 8);
  for (int i = 0; i < 3; ++i) {
    PageKind other = kind;
    if (i == 0) other.fingerprint[0] = 'f';
    if (i == 1) other.page_bytes = 32;
    if (i == 2) other.page_tokens = 8;
    open(1u << 20, other);
    const auto number = tier_->reserve(path, 0).number;
    tier_->save(number, std::vector<char>(8 / other.page_tokens * other.page_bytes));
    tier_.reset();
  }
  log_.clear();
  open();
  EXPECT_EQ(warnings(), 1u) << log_;
  EXPECT_TRUE(load(path).empty());
  save(path);
  save(mine);
  EXPECT_EQ(load(path), packed(path, 0));
  const std::uint64_t two = 2 * tier_->index().bytes() / 5 + 100;
  open(two);  // has room for these two only
  EXPECT_EQ(load(path), packed(path, 0));
  EXPECT_EQ(load(mine), packed(mine, 0));
  tier_.reset();
  EXPECT_EQ(files().size(), 2u);
}

TEST_F(DiskTierTest, BytesAreBoundedAndReadsRefresh) {
  open();
  save(tokens_from(0, 8));
  const std::uint64_t one = tier_->index().bytes();
  open(3 * one);
  save(tokens_from(100, 8));
  save(tokens_from(200, 8));
  EXPECT_FALSE(load(tokens_from(0, 8)).empty());
  save(tokens_from(300, 8));
  save(tokens_from(400, 8));
  EXPECT_LE(tier_->index().bytes(), 3 * one);
  EXPECT_TRUE(load(tokens_from(100, 8)).empty());
  tier_.reset();
  EXPECT_LE(files().size(), 3u);
  open(3 * one);
  EXPECT_FALSE(load(tokens_from(400, 8)).empty());
}

// The limit always holds: a segment that is larger than the limit is not written.
TEST_F(DiskTierTest, ABoundOfOnePageHoldsThatAndALesserOneIsRefused) {
  const std::uint64_t one = segment_file_bytes({kind, tokens_from(0, 4), 0, 1});
  open(one);
  save(tokens_from(0, 8));
  EXPECT_EQ(tier_->index().bytes(), 0u);
  EXPECT_TRUE(files().empty());
  save(tokens_from(100, 4));
  save(tokens_from(200, 4));
  EXPECT_EQ(tier_->index().bytes(), one);
  EXPECT_EQ(load(tokens_from(200, 4)), packed(tokens_from(200, 4), 0));
  tier_.reset();
  EXPECT_EQ(files().size(), 1u);
  const auto refused = DiskTier::open(env_, {"/tier", one - 1, kind});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_value);
  EXPECT_NE(refused.error().message.find("--prefix-disk of " + std::to_string(one - 1)),
            std::string::npos);
}

TEST_F(DiskTierTest, EndsGoBeforeBeginnings) {
  const Tokens path = tokens_from(0, 16);
  open();
  save(Tokens(path.begin(), path.begin() + 8));
  save(path, 2);
  const std::uint64_t both = tier_->index().bytes();
  EXPECT_EQ(load(path), packed(path, 0));
  open(both);
  EXPECT_EQ(load(path), packed(path, 0));
  save(tokens_from(100, 8));
  EXPECT_EQ(load(path), packed(tokens_from(0, 8), 0));
}

// Ends go first after a start, too, which adds segments in the order in which it reads them.
TEST_F(DiskTierTest, BeginningsOutliveEndsOverAStartWithLessRoom) {
  const Tokens path = tokens_from(0, 16);
  open();
  save(Tokens(path.begin(), path.begin() + 8));
  save(path, 2);
  const std::uint64_t both = tier_->index().bytes();
  open(both - 1);
  EXPECT_EQ(load(path), packed(tokens_from(0, 8), 0));
}

// The beginning of a path is not removed for its own end, whatever the order of uses.
TEST_F(DiskTierTest, WhatALongPathBeginsWithStays) {
  const Tokens path = tokens_from(0, 24), other = tokens_from(100, 8);
  open();
  save(other);
  const std::uint64_t one = tier_->index().bytes();
  open(3 * one);
  save(Tokens(path.begin(), path.begin() + 8));
  EXPECT_EQ(load(other), packed(other, 0));
  save(Tokens(path.begin(), path.begin() + 16), 2);  // replaces the other path
  EXPECT_TRUE(load(other).empty());
  const auto place = tier_->reserve(path, 4);
  EXPECT_EQ(place.number, 0u);
  EXPECT_FALSE(place.later);
  EXPECT_EQ(load(path), packed(tokens_from(0, 16), 0));
  save(other);  // is new, and the end is removed for it
  EXPECT_EQ(load(other), packed(other, 0));
  EXPECT_EQ(load(path), packed(tokens_from(0, 8), 0));
}

// A segment that is being written is not removed; when it is in its file, there is room.
TEST_F(DiskTierTest, WhatIsBeingWrittenIsWaitedFor) {
  open(segment_file_bytes({kind, tokens_from(0, 8), 0, 2}));
  const auto first = tier_->reserve(tokens_from(100, 8), 0);
  ASSERT_NE(first.number, 0u);
  const auto second = tier_->reserve(tokens_from(200, 8), 0);
  EXPECT_EQ(second.number, 0u);
  EXPECT_TRUE(second.later);
  tier_->save(first.number, packed(tokens_from(100, 8), 0));
  await(tokens_from(100, 8));
  EXPECT_NE(tier_->reserve(tokens_from(200, 8), 0).number, 0u);
}

TEST_F(DiskTierTest, AFolderIsOneEngines) {
  open();
  const auto second = DiskTier::open(env_, {"/tier", 1u << 20, kind});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::output_in_use);
}

TEST_F(DiskTierTest, AFullDiskCostsOneWarning) {
  open();
  save(tokens_from(0, 8));
  env_->set_capacity(300);
  for (TokenId i = 1; i < 5; ++i) save(tokens_from(100 * i, 8));
  EXPECT_EQ(warnings(), 1u) << log_;
  EXPECT_FALSE(tier_->accepts());
  EXPECT_EQ(load(tokens_from(0, 8)), packed(tokens_from(0, 8), 0));
  tier_.reset();
  EXPECT_EQ(files().size(), 1u);
}

TEST_F(DiskTierTest, AWriteThatFailsLeavesNoFile) {
  open();
  const Tokens path = tokens_from(0, 8);
  for (const char* failing : {"create", "write", "rename"}) {
    env_->set_hook([failing](std::string_view operation, const std::string& of) {
      return operation == failing ? Status(fail(Code::io_error, of)) : Status();
    });
    EXPECT_FALSE(write_segment(*env_, "/tier/1.kv", {kind, path, 0, 2}, packed(path, 0)));
    EXPECT_TRUE(files().empty()) << failing;
  }
  env_->set_hook({});
  EXPECT_TRUE(write_segment(*env_, "/tier/1.kv", {kind, path, 0, 2}, packed(path, 0)));
  EXPECT_EQ(files(), std::vector<std::string>{"1.kv"});
}

// The power fails at any operation: segments found afterwards are right, and the folder is usable.
TEST_F(DiskTierTest, APowerCutLeavesWholeSegmentsOrNone) {
  std::uint32_t found = 0;
  for (std::uint64_t cut = 1; cut < 24; ++cut) {
    env_ = std::make_shared<FaultEnv>();
    open();
    env_->cut_after(cut);
    for (TokenId i = 0; i < 4; ++i) {
      const auto number = tier_->reserve(tokens_from(100 * i, 8), 0).number;
      tier_->save(number, packed(tokens_from(100 * i, 8), 0));
    }
    tier_.reset();
    env_->restart(cut);
    open();
    for (TokenId i = 0; i < 4; ++i) {
      const auto bytes = load(tokens_from(100 * i, 8));
      if (bytes.empty()) continue;
      ++found;
      EXPECT_EQ(bytes, packed(tokens_from(100 * i, 8), 0));
    }
    save(tokens_from(900, 8));
    EXPECT_EQ(load(tokens_from(900, 8)), packed(tokens_from(900, 8), 0));
  }
  EXPECT_GT(found, 5u);
}

}  // namespace
}  // namespace millrace::engine
