// The file of the SQLite ledger stays bounded under retention, and gives back what it no longer
// needs.
#include <sqlite3.h>

#include <filesystem>

#include "tests/unit/ledger/harness.hpp"
#include "tests/unit/ledger/power_cut_disk.hpp"

namespace millrace::broker::test {
namespace {

constexpr std::uint64_t body_bytes = 5'000;

SqliteLedgerOptions small() {
  SqliteLedgerOptions options;
  options.publish = publish;
  options.ballast_bytes = 0;
  options.spare_pages = 64;
  options.space_pause = {};
  options.checkpoint_pages = 256;
  options.checkpoint_thread = false;
  options.wal_bytes = 4 * limits::MiB;
  return options;
}

class SqliteSpaceTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    ledger.reset();
    DurabilitySettings settings;
    settings.synchronous = "OFF";
    auto opened = open_weakened_sqlite_ledger(path, small(), settings);
    ASSERT_TRUE(opened) << opened.error().text();
    ledger = *std::move(opened);
  }
  std::vector<Result<Reply>> apply(const std::vector<Operation>& operations) {
    auto replies = ledger->apply(operations, now_us);
    EXPECT_TRUE(replies) << (replies ? "" : replies.error().text());
    EXPECT_TRUE(ledger->idle());
    return replies ? *std::move(replies) : std::vector<Result<Reply>>{};
  }
  // Stores jobs and ends each with a result.
  void work(std::uint64_t jobs) {
    std::vector<Operation> submits, ends;
    for (std::uint64_t i = 0; i < jobs; ++i) submits.push_back(job(numbered("j", next_++)));
    apply(submits);
    const auto replies = apply({claim(static_cast<std::uint32_t>(jobs))});
    for (const auto& claimed : std::get<ClaimReply>(*replies.at(0)).jobs) {
      ends.push_back(
          Finish{claimed.lease, JobState::completed, std::string(body_bytes, 'r'), "engine"});
    }
    EXPECT_EQ(ends.size(), jobs);
    apply(ends);
  }
  void retain(const RetentionPolicy& policy) {
    Retain step{policy, {}, 500};
    while (true) {
      const auto reply = std::get<RetainReply>(*apply({step}).at(0));
      if (!reply.more) return;
      step.after = reply.after;
    }
  }
  // The log is folded into the file where there is nothing else to do for a while.
  void rest() {
    std::uint64_t before = 0;
    for (int i = 0; i < 10'000 && (i < 20 || before != file_bytes()); ++i) {
      before = file_bytes();
      ASSERT_TRUE(ledger->idle());
      if (i % 20 == 0) open();  // opening folds it at once
    }
  }
  std::uint64_t file_bytes() const { return std::filesystem::file_size(path); }
  void check_integrity() {
    ledger.reset();
    sqlite3* db = nullptr;
    ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
    std::string said;
    sqlite3_exec(
        db, "PRAGMA integrity_check",
        [](void* to, int, char** columns, char**) {
          *static_cast<std::string*>(to) += columns[0];
          return 0;
        },
        &said, nullptr);
    sqlite3_close(db);
    EXPECT_EQ(said, "ok");
  }

  TemporaryFolder folder;
  std::string path = folder.file("ledger");
  std::unique_ptr<Ledger> ledger;
  std::int64_t now_us = start_us;

 private:
  std::uint64_t next_ = 0;
};

TEST_F(SqliteSpaceTest, UnderSteadyLoadTheFileStopsGrowing) {
  RetentionPolicy policy;
  policy.streams.bytes = 1'000 * body_bytes;
  policy.job_age_us = 10'000'000;
  std::uint64_t early = 0;
  for (int second = 0; second < 60; ++second) {
    now_us += 1'000'000;
    work(100);
    retain(policy);
    if (second == 20) early = file_bytes();
  }
  EXPECT_LT(file_bytes(), early + early / 10);
  EXPECT_LT(file_bytes(), 3 * policy.streams.bytes);
  EXPECT_LT(std::filesystem::file_size(path + "-wal"), 12 * limits::MiB);
  check_integrity();
}

TEST_F(SqliteSpaceTest, WhatIsNoLongerNeededGoesBackToTheDisk) {
  for (int i = 0; i < 20; ++i) work(100);
  rest();
  const std::uint64_t full = file_bytes();
  EXPECT_GT(full, 2'000 * body_bytes);
  RetentionPolicy policy;
  policy.streams.bytes = 100 * body_bytes;
  policy.job_age_us = 1;
  now_us += 1'000'000;
  retain(policy);
  rest();
  EXPECT_LT(file_bytes(), full / 5);
  const auto read = std::get<ReadStreamReply>(*apply({reading("results")}).at(0));
  EXPECT_TRUE(read.trimmed);
  ReadStream rest_of_it = reading("results");
  rest_of_it.from = read.first;
  EXPECT_EQ(std::get<ReadStreamReply>(*apply({rest_of_it}).at(0)).entries.size(), 100u);
  check_integrity();
}

TEST_F(SqliteSpaceTest, SomeFreePagesStayForNewRows) {
  for (int i = 0; i < 20; ++i) work(100);
  rest();
  const std::uint64_t full = file_bytes();
  RetentionPolicy policy;
  policy.streams.bytes = 1'900 * body_bytes;  // a twentieth of the file becomes free
  retain(policy);
  rest();
  EXPECT_EQ(file_bytes(), full);
}

TEST(SqliteSpaceOnAFullDisk, NothingIsLostAndTheLedgerGoesOn) {
  PowerCutDisk disk;
  SqliteLedgerOptions options = small();
  options.env = &disk.env();
  options.vfs = disk.vfs_name();
  auto ledger = open_sqlite_ledger("ledger", std::move(options));
  ASSERT_TRUE(ledger) << ledger.error().text();
  std::vector<Operation> appends;
  for (int i = 0; i < 1'000; ++i) {
    appends.push_back(Append{tenant, "log", "j", std::string(body_bytes, 'x')});
  }
  ASSERT_TRUE((*ledger)->apply(appends, start_us));
  const std::vector<Operation> trim{TrimStream{tenant, "log", 1'001}, Retain{{}, {}, 2'000}};
  ASSERT_TRUE((*ledger)->apply(trim, start_us));
  disk.capacity(disk.used());
  for (int i = 0; i < 100; ++i) {
    const Status kept = (*ledger)->idle();
    ASSERT_TRUE(kept) << kept.error().text();
  }
  disk.capacity(disk.used() + 100 * limits::MiB);
  const std::vector<Operation> one{Append{tenant, "log", "j", "x"}};
  const auto replies = (*ledger)->apply(one, start_us);
  ASSERT_TRUE(replies);
  EXPECT_EQ(std::get<FinishReply>(*replies->front()).number, 1'001u);
}

}  // namespace
}  // namespace millrace::broker::test
