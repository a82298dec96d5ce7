// Several engines' tiers over one folder: what they read, refuse and remove.
#include <thread>

#include "tests/unit/prefix/shared_tier_fixture.hpp"

namespace millrace::engine {
namespace {

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

}  // namespace
}  // namespace millrace::engine
