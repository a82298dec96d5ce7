// Checkpoints on a thread of their own beside commits: nothing is lost, the log stays short.
#include <chrono>
#include <thread>

#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/verify_ledger.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

constexpr std::uint32_t checkpoint_pages = 64;
constexpr std::uint64_t log_bytes = 4 * limits::MiB;

class CheckpointsTest : public testing::Test {
 protected:
  void SetUp() override { open(); }
  void open() {
    ledger.reset();
    SqliteLedgerOptions options;
    options.publish = publish;
    options.ballast_bytes = 0;
    options.checkpoint_pages = checkpoint_pages;
    options.wal_bytes = log_bytes;
    auto opened = open_sqlite_ledger(path, std::move(options));
    ASSERT_TRUE(opened) << opened.error().text();
    ledger = *std::move(opened);
  }
  // Commits some jobs of 2 KiB, among others' pages.
  void submit(int commit) {
    std::vector<Operation> operations;
    for (int i = 0; i < 3; ++i) {
      SubmitJob one = job(std::to_string(commit * 7919 % 100'003) + "-" + std::to_string(i));
      one.body.assign(2'000, static_cast<char>('a' + i));
      operations.emplace_back(std::move(one));
    }
    const auto replies = ledger->apply(operations, start_us);
    ASSERT_TRUE(replies) << replies.error().text();
    for (const auto& reply : *replies) ASSERT_TRUE(reply) << reply.error().text();
    const Status kept = ledger->idle();
    ASSERT_TRUE(kept) << kept.error().text();
  }
  std::uint64_t log_size() const { return std::filesystem::file_size(path + "-wal"); }

  TemporaryFolder folder;
  std::string path = folder.file(ledger_file);
  std::unique_ptr<Ledger> ledger;
};

TEST_F(CheckpointsTest, NothingIsLostAndTheLogStaysShort) {
  constexpr int commits = 2'000;
  std::uint64_t longest = 0;
  for (int commit = 0; commit < commits; ++commit) {
    submit(commit);
    longest = std::max(longest, log_size());
    if (commit % 500 == 499) open();
  }
  // About 40 MB went through the log. What comes while it is truncated makes it longer than its
  // limit for a moment.
  EXPECT_LT(longest, log_bytes + log_bytes / 4);
  const std::uint64_t kept = std::filesystem::file_size(path);
  ledger.reset();
  const auto report = verify_ledger(folder.file(""));
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->jobs, 3U * commits);
  EXPECT_GT(kept, 2'000U * 3 * commits / 2) << "the pages went to the file while it was open";
}

TEST_F(CheckpointsTest, ARestIsCopiedWhileNothingIsCommitted) {
  for (int commit = 0; commit < 40; ++commit) submit(commit);
  const auto copied = [&] {
    EXPECT_TRUE(ledger->idle());
    return std::filesystem::file_size(path) > 40U * 3 * 2'000;
  };
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!copied() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(copied());
}

}  // namespace
}  // namespace millrace::broker::test
