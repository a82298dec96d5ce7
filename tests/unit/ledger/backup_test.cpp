// Backups of a ledger in SQLite, step by step beside its work, and what refuses or ends one.
#include <filesystem>
#include <fstream>

#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/verify_ledger.hpp"
#include "schemas/base/limits.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

namespace fs = std::filesystem;

class BackupTest : public ::testing::Test {
 protected:
  void SetUp() override {
    auto opened = open_ledger(*parse_ledger_place(folder_.file("ledger")),
                              {publish, {}, env_.get(), {}, backups_});
    ASSERT_TRUE(opened) << opened.error().text();
    ledger_ = std::move(opened->front());
  }
  // Jobs of so many bytes that one step does not copy them all.
  void fill() {
    std::vector<Operation> operations;
    for (int i = 0; i < 64; ++i) {
      SubmitJob one = std::get<SubmitJob>(Operation(job("j" + std::to_string(i))));
      one.body = std::string(limits::MiB, static_cast<char>('a' + i % 26));
      operations.emplace_back(std::move(one));
    }
    ASSERT_TRUE(ledger_->apply(operations, start_us));
  }
  Result<BackUpReply> step(const std::string& name, bool cancel = false) {
    const Operation operation = BackUp{name, cancel};
    auto reply = ledger_->apply(std::span(&operation, 1), start_us)->front();
    if (!reply) return fail(reply.error());
    return std::get<BackUpReply>(*reply);
  }
  // Steps until the backup is done, or its error.
  Result<BackUpReply> finish(const std::string& name) {
    auto reply = step(name);
    while (reply && !reply->done) reply = step(name);
    return reply;
  }
  Code refusal(const std::string& name) {
    const auto reply = step(name);
    return reply ? Code::internal : reply.error().code;
  }

  TemporaryFolder folder_;
  std::string backups_ = folder_.file("backups");
  std::unique_ptr<Env> env_ = posix_env();
  std::unique_ptr<Ledger> ledger_;
};

TEST_F(BackupTest, ANameIsOneOfAFolder) {
  for (const std::string& name :
       {std::string(), std::string("."), std::string("..a"), std::string("a/b"), std::string("ä"),
        std::string("a b"), std::string(limits::id_bytes, 'a')}) {
    EXPECT_EQ(refusal(name), Code::usage) << name;
  }
  EXPECT_FALSE(fs::exists(backups_) && !fs::is_empty(backups_));
  EXPECT_TRUE(finish("2026-11-25_a.b"));
}

TEST_F(BackupTest, IsTheLedgerAndIsNeverReplaced) {
  fill();
  const auto done = finish("a");
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_EQ(done->folder, backups_ + "/a");
  EXPECT_EQ(done->copied, done->bytes);
  EXPECT_TRUE(verify_ledger(done->folder));
  EXPECT_EQ(refusal("a"), Code::conflict);
}

TEST_F(BackupTest, OneIsMadeAtATimeAndACancelledOneLeavesNothing) {
  fill();
  const auto first = step("a");
  ASSERT_TRUE(first);
  ASSERT_FALSE(first->done) << "64 MiB in one step";
  EXPECT_EQ(refusal("b"), Code::conflict);
  const auto dropped = step("a", /*cancel=*/true);
  ASSERT_TRUE(dropped);
  EXPECT_FALSE(dropped->done);
  EXPECT_FALSE(fs::exists(backups_ + "/a"));
  EXPECT_FALSE(fs::exists(backups_ + "/.a/" + ledger_file));
  EXPECT_TRUE(finish("b"));
}

// The name was free when the backup began, and is not when it ends.
TEST_F(BackupTest, ThatCannotGetItsNameFailsAndTheNextBeginsAnew) {
  fill();
  ASSERT_TRUE(step("a"));
  fs::create_directories(backups_ + "/a");
  std::ofstream(backups_ + "/a/notes") << "of somebody";
  const auto failed = finish("a");
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::io_error);
  EXPECT_TRUE(fs::exists(backups_ + "/a/notes"));
  fs::remove_all(backups_ + "/a");
  const auto done = finish("a");
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_TRUE(verify_ledger(done->folder));
}

TEST_F(BackupTest, InAFolderThatCannotBeMadeIsRefused) {
  std::ofstream(backups_) << "a file";
  const auto reply = step("a");
  ASSERT_FALSE(reply);
  EXPECT_NE(reply.error().message.find(backups_), std::string::npos) << reply.error().text();
  fs::remove(backups_);
  EXPECT_TRUE(finish("a"));
}

TEST(Backup, OfALedgerInMemoryIsRefused) {
  const auto env = posix_env();
  auto opened = open_ledger(*parse_ledger_place("memory:"), {publish, {}, env.get()});
  ASSERT_TRUE(opened);
  const Operation operation = BackUp{"a"};
  const auto reply = opened->front()->apply(std::span(&operation, 1), start_us)->front();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, Code::usage);
}

}  // namespace
}  // namespace millrace::broker::test
