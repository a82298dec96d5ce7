// Two and more engines' tiers over one folder, and over a store that fails or hangs.
#include "engine/core/prefix/shared_tier.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <future>
#include <mutex>
#include <sstream>

#include "engine/core/prefix/folder_store.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t shared_page_tokens = 4;
constexpr std::uint64_t shared_page_bytes = 64;
const PageKind shared_kind{"0123456789abcdef0123456789abcdef", shared_page_tokens,
                           shared_page_bytes};

Tokens shared_path(TokenId first, std::uint32_t count) {
  Tokens out;
  for (std::uint32_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

// Packed pages whose bytes name their path and number.
std::vector<char> shared_pages(const Tokens& path, std::uint32_t first_page) {
  std::vector<char> out;
  for (std::size_t page = first_page; page < path.size() / shared_page_tokens; ++page) {
    for (std::uint64_t i = 0; i < shared_page_bytes; ++i) {
      out.push_back(static_cast<char>(path[page * shared_page_tokens] * 7 + page + i));
    }
  }
  return out;
}

std::string content_of(const fs::path& path) {
  std::ostringstream out;
  out << std::ifstream(path, std::ios::binary).rdbuf();
  return out.str();
}

// A folder's store whose calls a test makes fail or wait.
class TestStore final : public SegmentStore {
 public:
  struct Faults {
    std::atomic<bool> away{false}, no_writes{false};
    std::atomic<int> writes{0};
    std::shared_future<void> read_waits_for;
    std::atomic<bool> hangs{false};
  };
  TestStore(std::string folder, std::shared_ptr<Faults> faults)
      : folder_(std::move(folder)), faults_(std::move(faults)) {}
  Result<std::vector<StoredFile>> list() override {
    MILLRACE_TRY(there());
    return folder_.list();
  }
  Result<std::size_t> read(const std::string& name, std::uint64_t offset,
                           std::span<char> into) override {
    if (faults_->hangs) faults_->read_waits_for.wait();
    MILLRACE_TRY(there());
    return folder_.read(name, offset, into);
  }
  Status write(const std::string& name, std::string_view content) override {
    MILLRACE_TRY(there());
    if (faults_->no_writes) return fail(Code::disk_full, "no room");
    ++faults_->writes;
    return folder_.write(name, content);
  }
  Status remove(const std::string& name) override {
    MILLRACE_TRY(there());
    return folder_.remove(name);
  }
  Status touch(const std::string& name) override { return folder_.touch(name); }
  std::string place(const std::string& name) const override { return folder_.place(name); }
  std::string place() const override { return folder_.place(); }

 private:
  Status there() const {
    return faults_->away ? fail(Code::io_error, "the store is unreachable") : Status();
  }
  FolderStore folder_;
  std::shared_ptr<Faults> faults_;
};

class SharedTierTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(testing::TempDir()) /
              (std::string("millrace-shared-") + test->name() + std::to_string(::getpid()));
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    options_.kind = shared_kind;
    options_.bytes = 1u << 20;
    options_.refresh_ms = 0;
    options_.pause_ms = 1;
    options_.touch_ms = 0;
    set_up_logging({LogLevel::info, false, [this](std::string_view line) {
                      const std::lock_guard lock(log_mutex_);
                      if (line.find(" warning") != line.npos || line.find(" warn") != line.npos)
                        warnings_ += line;
                      log_ += line;
                    }});
  }
  void TearDown() override {
    set_up_logging({LogLevel::off, false, {}});
    fs::remove_all(folder_);
  }
  std::unique_ptr<SharedTier> open() {
    return SharedTier::open(std::make_unique<TestStore>(folder_.string(), faults_), options_)
        .value();
  }
  static void save(SharedTier& tier, const Tokens& path, std::uint32_t first_page = 0) {
    const auto number = tier.reserve(path, first_page).number;
    ASSERT_NE(number, 0u);
    tier.save(number, shared_pages(path, first_page));
    while (tier.index().contains(number) && !tier.index().is_readable(number)) {
      tier.wait();
      tier.take();
    }
  }
  // Waits until a tier knows so many pages of a path.
  static void await(SharedTier& tier, const Tokens& path, std::uint32_t pages) {
    while (tier.find(path, 0) != pages) {
      tier.wait();
      tier.take();
    }
  }
  static std::vector<char> load(SharedTier& tier, const Tokens& path) {
    std::vector<char> out;
    const auto known = std::span(path).first(tier.find(path, 0) * shared_page_tokens);
    const auto pieces = tier.index().pieces(known, 0);
    for (const auto& piece : pieces) tier.load(5, piece);
    for (std::size_t answers = 0; answers < pieces.size();) {
      tier.wait();
      for (const auto& loaded : tier.take()) {
        out.insert(out.end(), loaded.bytes.begin(), loaded.bytes.end());
        ++answers;
      }
    }
    return out;
  }
  std::vector<fs::path> files() const {
    std::vector<fs::path> out;
    for (const auto& entry : fs::directory_iterator(folder_)) out.push_back(entry.path());
    std::ranges::sort(out);
    return out;
  }
  std::uint64_t bytes() const {
    std::uint64_t out = 0;
    for (const fs::path& file : files()) out += fs::file_size(file);
    return out;
  }
  void grow_old(const fs::path& file, int hours) const {
    fs::last_write_time(file, fs::last_write_time(file) - std::chrono::hours(hours));
  }
  std::string warnings() {
    const std::lock_guard lock(log_mutex_);
    return warnings_;
  }
  std::size_t warned() {
    const std::string lines = warnings();
    return static_cast<std::size_t>(std::ranges::count(lines, '\n'));
  }

  fs::path folder_;
  SharedTierOptions options_;
  std::shared_ptr<TestStore::Faults> faults_ = std::make_shared<TestStore::Faults>();
  std::mutex log_mutex_;
  std::string log_, warnings_;
};

TEST_F(SharedTierTest, WhatOneSavesTheOthersRead) {
  const Tokens path = shared_path(0, 20);
  const auto first = open(), second = open();
  save(*first, Tokens(path.begin(), path.begin() + 12));
  save(*first, path, 3);
  await(*second, path, 5);
  EXPECT_EQ(load(*second, path), shared_pages(path, 0));
  EXPECT_EQ(load(*second, shared_path(0, 11)), shared_pages(shared_path(0, 8), 0));
  EXPECT_EQ(second->find(shared_path(1, 20), 0), 0u);
  const auto third = open();  // knows it from its start
  EXPECT_EQ(third->find(path, 0), 5u);
  EXPECT_EQ(load(*third, path), shared_pages(path, 0));
  EXPECT_EQ(warnings(), "");
}

TEST_F(SharedTierTest, TheSameSegmentIsWrittenOnce) {
  const Tokens path = shared_path(0, 8);
  const auto first = open(), second = open();
  const auto number = second->reserve(path, 0).number;  // before it knows of the first's
  save(*first, path);
  second->save(number, shared_pages(path, 0));
  while (!second->index().is_readable(number)) {
    second->wait();
    second->take();
  }
  EXPECT_EQ(files().size(), 1u);
  EXPECT_EQ(faults_->writes, 1);
  EXPECT_EQ(load(*second, path), shared_pages(path, 0));
}

// Damages every byte of a file, one after the other: a miss and one warning, never other bytes.
TEST_F(SharedTierTest, ADamagedFileIsRefusedAndComputedAgain) {
  const Tokens path = shared_path(0, 8);
  save(*open(), path);
  const fs::path file = files().at(0);
  const std::string whole = content_of(file);
  for (std::size_t at = 0; at < whole.size(); at += at < 80 ? 1 : 7) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x10);
    std::ofstream(file, std::ios::binary) << broken;
    warnings_.clear();
    const auto tier = open();
    EXPECT_TRUE(load(*tier, path).empty()) << at;
    EXPECT_EQ(warned(), 1u) << at << ": " << warnings();
    EXPECT_NE(warnings().find(file.filename().string()), std::string::npos) << warnings();
    EXPECT_TRUE(files().empty()) << at;
    save(*tier, path);
    EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
  }
}

TEST_F(SharedTierTest, ATornFileIsRefused) {
  const Tokens path = shared_path(0, 8);
  save(*open(), path);
  const fs::path file = files().at(0);
  const std::string whole = content_of(file);
  for (const std::size_t size :
       {whole.size() + 1, whole.size() - 1, whole.size() / 2, std::size_t{40}, std::size_t{0}}) {
    std::ofstream(file, std::ios::binary) << (whole + "x").substr(0, size);
    warnings_.clear();
    EXPECT_EQ(open()->find(path, 0), 0u) << size;
    EXPECT_EQ(warned(), 1u) << size << ": " << warnings();
    EXPECT_TRUE(files().empty());
  }
}

// Damage between the look-up and the read; and a file that another engine has removed by then,
// which is no damage.
TEST_F(SharedTierTest, WhatChangesUnderAReader) {
  const Tokens path = shared_path(0, 8);
  const auto tier = open();
  save(*tier, path);
  std::string broken = content_of(files().at(0));
  broken.back() = static_cast<char>(broken.back() + 1);
  std::ofstream(files().at(0), std::ios::binary) << broken;
  EXPECT_TRUE(load(*tier, path).empty());
  EXPECT_EQ(warned(), 1u) << warnings();
  EXPECT_NE(warnings().find("the checksum of a page is wrong"), std::string::npos) << warnings();
  save(*tier, path);
  fs::remove(files().at(0));
  EXPECT_TRUE(load(*tier, path).empty());
  EXPECT_EQ(warned(), 1u) << warnings();
  save(*tier, path);
  EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
}

// A whole file under a name that is not its own, of this engine or another's.
TEST_F(SharedTierTest, AFileThatIsNotWhatItsNameSaysIsRefused) {
  const Tokens mine = shared_path(0, 8), other = shared_path(50, 8);
  PageKind foreign = shared_kind;
  foreign.fingerprint[0] = 'f';
  save(*open(), mine);
  const fs::path file = files().at(0);
  fs::remove(file);
  for (const PageKind& kind : {shared_kind, foreign}) {
    options_.kind = kind;
    const Tokens& path = kind == foreign ? mine : other;
    save(*open(), path);
    fs::rename(files().at(0), file);
    options_.kind = shared_kind;
    warnings_.clear();
    const auto tier = open();
    EXPECT_EQ(tier->find(mine, 0), 0u);
    EXPECT_EQ(tier->find(other, 0), 0u);
    EXPECT_EQ(warned(), 1u) << warnings();
    EXPECT_NE(warnings().find("another"), std::string::npos) << warnings();
  }
}

TEST_F(SharedTierTest, OtherKindsAreNeverReadAndLiveUnderTheSameBound) {
  const Tokens path = shared_path(0, 8);
  for (int i = 0; i < 3; ++i) {
    options_.kind = shared_kind;
    if (i == 0) options_.kind.fingerprint[0] = 'f';
    if (i == 1) options_.kind.page_bytes = 32;
    if (i == 2) options_.kind.state_bytes = 1000;
    const auto tier = open();
    const auto number = tier->reserve(path, 0).number;
    tier->save(number, std::vector<char>(2 * options_.kind.page_bytes));
  }
  EXPECT_EQ(files().size(), 3u);
  for (const fs::path& file : files()) grow_old(file, 1);
  options_.kind = shared_kind;
  const auto tier = open();
  EXPECT_EQ(tier->find(path, 0), 0u);
  save(*tier, path);
  EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
  EXPECT_EQ(files().size(), 4u);
  options_.bytes = segment_file_bytes({shared_kind, path, 0, 2});
  const auto small = open();
  EXPECT_EQ(files().size(), 1u);
  EXPECT_EQ(load(*small, path), shared_pages(path, 0));
  EXPECT_EQ(warnings(), "");
}

// The bound is one of all engines together, and what was used longest ago goes, whoever used it.
TEST_F(SharedTierTest, TheOldestUseGoesFirst) {
  const std::uint64_t one = segment_file_bytes({shared_kind, shared_path(0, 8), 0, 2});
  options_.bytes = 3 * one;
  const auto first = open(), second = open();
  for (const TokenId start : {0u, 100u, 200u}) save(*first, shared_path(start, 8));
  for (const fs::path& file : files()) grow_old(file, 2);
  for (const TokenId start : {0u, 200u}) await(*second, shared_path(start, 8), 2);
  save(*second, shared_path(300, 8));
  EXPECT_EQ(bytes(), 3 * one);
  const auto third = open();
  EXPECT_EQ(third->find(shared_path(0, 8), 0), 2u);
  EXPECT_EQ(third->find(shared_path(100, 8), 0), 0u);
  EXPECT_EQ(third->find(shared_path(200, 8), 0), 2u);
  EXPECT_EQ(third->find(shared_path(300, 8), 0), 2u);
  // The first engine still believes in what is gone.
  EXPECT_TRUE(load(*first, shared_path(100, 8)).empty());
  EXPECT_EQ(warnings(), "");
}

TEST_F(SharedTierTest, EndsGoBeforeBeginningsOfTheSameAge) {
  const Tokens path = shared_path(0, 16);
  {
    const auto tier = open();
    save(*tier, Tokens(path.begin(), path.begin() + 8));
    save(*tier, path, 2);
  }
  const auto now = fs::last_write_time(files().at(0));
  for (const fs::path& file : files()) fs::last_write_time(file, now);
  options_.bytes = bytes() - 1;
  EXPECT_EQ(open()->find(path, 0), 2u);
}

// What a path begins with is not removed for its end, however old it is.
TEST_F(SharedTierTest, ABeginningStaysForItsOwnEnd) {
  const Tokens path = shared_path(0, 16), other = shared_path(100, 8);
  const std::uint64_t one = segment_file_bytes({shared_kind, path, 2, 2});
  options_.bytes = 2 * one;
  options_.touch_ms = 1'000'000;
  const auto tier = open();
  save(*tier, Tokens(path.begin(), path.begin() + 8));
  grow_old(files().at(0), 5);
  save(*tier, other);
  save(*tier, path, 2);
  EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
  EXPECT_EQ(files().size(), 2u);
}

// Many engines write at once, each for itself: nothing fails, and when they are done the bound
// holds and every file is right.
TEST_F(SharedTierTest, EnginesThatWriteAndRemoveAtOnceKeepTheBound) {
  options_.bytes = 10 * segment_file_bytes({shared_kind, shared_path(0, 8), 0, 2});
  std::vector<std::thread> engines;
  for (std::uint32_t engine = 0; engine < 4; ++engine) {
    engines.emplace_back([this, engine] {
      const auto tier = open();
      for (TokenId i = 0; i < 25; ++i) {
        // Half of the paths are all engines'.
        const Tokens path = shared_path(1000 * i + (i % 2 == 0 ? 100 * engine : 0), 8);
        if (tier->find(path, 0) == 2) continue;
        const auto number = tier->reserve(path, 0).number;
        tier->save(number, shared_pages(path, 0));
        tier->wait();
        tier->take();
        const std::vector<char> read = load(*tier, path);
        EXPECT_TRUE(read.empty() || read == shared_pages(path, 0));
      }
    });
  }
  for (std::thread& engine : engines) engine.join();
  const auto last = open();
  EXPECT_LE(bytes(), options_.bytes);
  EXPECT_GE(files().size(), 5u);
  for (const fs::path& file : files()) EXPECT_TRUE(is_segment_name(file.filename().string()));
  EXPECT_EQ(warnings(), "");
}

// What an engine that was killed has left is counted, and goes as the oldest.
TEST_F(SharedTierTest, AHalfWrittenFileGoesInItsTurn) {
  const Tokens path = shared_path(0, 8);
  save(*open(), path);
  const fs::path file = files().at(0);
  const fs::path half = file.string() + ".0123456789abcdef0123456789abcdef.new";
  std::ofstream(half) << std::string(100, 'x');
  std::ofstream(folder_ / "notes.txt") << std::string(10'000, 'x');  // nobody's
  grow_old(half, 1);
  EXPECT_EQ(open()->find(path, 0), 2u);
  EXPECT_TRUE(fs::exists(half));
  options_.bytes = fs::file_size(file) + 99;
  EXPECT_EQ(open()->find(path, 0), 2u);
  EXPECT_FALSE(fs::exists(half));
  EXPECT_TRUE(fs::exists(folder_ / "notes.txt"));
}

TEST_F(SharedTierTest, AStoreThatIsAwayCostsOneWarningAndComesBack) {
  const Tokens path = shared_path(0, 8), later = shared_path(100, 8);
  save(*open(), path);
  faults_->away = true;
  const auto tier = open();  // does not fail
  EXPECT_EQ(tier->find(path, 0), 0u);
  EXPECT_TRUE(tier->has_failed());
  EXPECT_FALSE(tier->accepts());
  for (int i = 0; i < 20; ++i) {
    tier->find(path, 0);
    tier->wait();
    tier->take();
  }
  EXPECT_EQ(warned(), 1u) << warnings();
  EXPECT_NE(warnings().find("the store is unreachable"), std::string::npos) << warnings();
  faults_->away = false;
  await(*tier, path, 2);
  EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
  EXPECT_NE(log_.find("prefixes are shared in a store"), std::string::npos) << log_;
  faults_->away = true;  // between the look-up and the read
  EXPECT_TRUE(load(*tier, path).empty());
  EXPECT_EQ(warned(), 2u) << warnings();
  faults_->away = false;
  await(*tier, path, 2);
  EXPECT_NE(log_.find("the prefix store can be used again"), std::string::npos) << log_;
  save(*tier, later);
  EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
}

TEST_F(SharedTierTest, AFolderThatIsMissingIsSaidAndNotMade) {
  fs::remove_all(folder_);
  const auto tier = open();
  EXPECT_EQ(tier->find(shared_path(0, 8), 0), 0u);
  EXPECT_NE(warnings().find("make this folder, or mount"), std::string::npos) << warnings();
  EXPECT_FALSE(fs::exists(folder_));
}

TEST_F(SharedTierTest, AFullStoreIsStillRead) {
  const Tokens path = shared_path(0, 8), other = shared_path(100, 8);
  options_.pause_ms = 1'000'000;
  const auto tier = open();
  save(*tier, path);
  faults_->no_writes = true;
  tier->save(tier->reserve(other, 0).number, shared_pages(other, 0));
  while (tier->accepts()) {
    tier->wait();
    tier->take();
  }
  EXPECT_TRUE(tier->has_failed());
  EXPECT_EQ(warned(), 1u) << warnings();
  EXPECT_EQ(load(*tier, path), shared_pages(path, 0));
  EXPECT_EQ(tier->index().first_missing(other), 0u);  // may be saved again later
}

// A file system that hangs: reads are given up, what they were for is computed, and the engine can
// end.
TEST_F(SharedTierTest, AStoreThatHangsHoldsUpNobody) {
  const Tokens path = shared_path(0, 8);
  std::promise<void> goes_on;
  faults_->read_waits_for = goes_on.get_future().share();
  options_.patience_ms = 50;
  options_.last_writes_ms = 50;
  auto tier = open();
  save(*tier, path);
  faults_->hangs = true;
  EXPECT_TRUE(load(*tier, path).empty());
  EXPECT_NE(warnings().find("does not answer"), std::string::npos) << warnings();
  EXPECT_EQ(tier->find(path, 0), 0u);
  EXPECT_TRUE(tier->has_failed());
  auto other = std::move(tier);
  other.reset();  // ends while the call hangs
  EXPECT_NE(warnings().find("what was to be saved is lost"), std::string::npos) << warnings();
  faults_->hangs = false;
  const auto later = open();
  faults_->hangs = true;
  EXPECT_TRUE(load(*later, path).empty());
  faults_->hangs = false;
  goes_on.set_value();
  await(*later, path, 2);  // the late answer is dropped
  EXPECT_EQ(load(*later, path), shared_pages(path, 0));
}

TEST_F(SharedTierTest, ALimitBelowOneSegmentIsRefused) {
  options_.bytes = 100;
  const auto refused = SharedTier::open(std::make_unique<FolderStore>(folder_.string()), options_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_value);
}

}  // namespace
}  // namespace millrace::engine
