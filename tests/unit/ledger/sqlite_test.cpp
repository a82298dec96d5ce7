// Tests of the SQLite ledger alone: opening, settings, damage, full disks.
#include <sqlite3.h>

#include <cstdio>
#include <fstream>

#include "broker/ledger/sqlite_testing.hpp"
#include "tests/unit/ledger/full_disk_env.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

SqliteLedgerOptions plain() {
  SqliteLedgerOptions options;
  options.publish = publish;
  options.ballast_bytes = 0;
  return options;
}

Code code_of_opening(const std::string& path) {
  const auto opened = open_sqlite_ledger(path, plain());
  if (opened) return Code::internal;
  EXPECT_NE(opened.error().message.find(path), std::string::npos) << opened.error().text();
  EXPECT_FALSE(opened.error().hint.empty()) << opened.error().text();
  return opened.error().code;
}

std::vector<Result<Reply>> carry_out(Ledger& ledger, const std::vector<Operation>& operations) {
  auto replies = ledger.apply(operations, start_us);
  EXPECT_TRUE(replies) << (replies ? "" : replies.error().text());
  return replies ? *std::move(replies) : std::vector<Result<Reply>>(operations.size(), Reply{});
}

// Changes the file as another program would, while no ledger has it open.
void meddle(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  char* message = nullptr;
  ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
  sqlite3_close(db);
}

class SqliteLedgerTest : public testing::Test {
 protected:
  std::unique_ptr<Ledger> open(SqliteLedgerOptions options = plain()) {
    auto opened = open_sqlite_ledger(path, std::move(options));
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().text());
    return opened ? *std::move(opened) : nullptr;
  }

  TemporaryFolder folder;
  std::string path = folder.file("ledger");
};

TEST_F(SqliteLedgerTest, KeepsItsEpochAndLeasesOverARestart) {
  auto ledger = open();
  auto replies = carry_out(*ledger, {job("a"), claim(1), reading("results")});
  const auto claimed = std::get<ClaimReply>(*replies[1]).jobs.at(0);
  const auto epoch = std::get<ReadStreamReply>(*replies[2]).epoch;
  ledger.reset();
  ledger = open();
  replies = carry_out(*ledger, {Finish{claimed.lease, JobState::completed, "r", "engine"},
                                reading("results", epoch)});
  ASSERT_TRUE(replies[0]) << "the lease stays valid";
  ASSERT_TRUE(replies[1]);
  EXPECT_EQ(std::get<ReadStreamReply>(*replies[1]).entries.size(), 1u);
}

TEST_F(SqliteLedgerTest, RefusesASecondBroker) {
  auto ledger = open();
  EXPECT_EQ(code_of_opening(path), Code::ledger_in_use);
  ledger.reset();
  EXPECT_NE(open(), nullptr);
}

// What another process says that reads the file.
std::string said_by_tool(const std::string& path) {
  const std::string command =
      "python3 -c 'import sqlite3; sqlite3.connect(\"" + path +
      "\", timeout=0).execute(\"SELECT * FROM jobs\"); print(\"read\")' 2>&1";
  FILE* const tool = popen(command.c_str(), "r");
  std::string said(10'000, '\0');
  said.resize(std::fread(said.data(), 1, said.size(), tool));
  pclose(tool);
  return said;
}

TEST_F(SqliteLedgerTest, IsNotOpenedByToolsMeanwhile) {
  auto ledger = open();
  EXPECT_NE(said_by_tool(path).find("database is locked"), std::string::npos);
  ledger.reset();
  EXPECT_EQ(said_by_tool(path), "read\n");
}

TEST_F(SqliteLedgerTest, RefusesALedgerFromANewerVersion) {
  open();
  meddle(path, "PRAGMA user_version=" + std::to_string(ledger_version + 1));
  EXPECT_EQ(code_of_opening(path), Code::ledger_newer);
}

TEST_F(SqliteLedgerTest, RefusesAnotherProgramsFileAndLeavesItAlone) {
  meddle(path, "CREATE TABLE theirs (x); INSERT INTO theirs VALUES (1)");
  std::ifstream file(path, std::ios::binary);
  const std::string before((std::istreambuf_iterator<char>(file)), {});
  EXPECT_EQ(code_of_opening(path), Code::ledger_corrupt);
  std::ifstream again(path, std::ios::binary);
  EXPECT_EQ(before, std::string((std::istreambuf_iterator<char>(again)), {}));
}

TEST_F(SqliteLedgerTest, RefusesAFileThatIsNoDatabase) {
  std::ofstream(path) << std::string(10'000, 'x');
  EXPECT_EQ(code_of_opening(path), Code::ledger_corrupt);
}

TEST_F(SqliteLedgerTest, RefusesAFolderThatIsNotThere) {
  EXPECT_EQ(code_of_opening(folder.file("no/such/ledger")), Code::io_error);
}

TEST_F(SqliteLedgerTest, RefusesSettingsThatWereNotApplied) {
  // A database in memory cannot have a write-ahead log; SQLite reports that only when asked.
  EXPECT_EQ(code_of_opening(":memory:"), Code::ledger_settings);
}

TEST_F(SqliteLedgerTest, EverySettingIsCompared) {
  for (const char* lowered : {"PRAGMA synchronous=NORMAL", "PRAGMA wal_autocheckpoint=10",
                              "PRAGMA journal_mode=DELETE", "PRAGMA mmap_size=1000000"}) {
    const TemporaryFolder own;
    Database database;
    ASSERT_TRUE(database.open(own.file("ledger"), ""));
    ASSERT_TRUE(ledger_version_of(database));
    ASSERT_TRUE(settle_settings(database));
    ASSERT_TRUE(check_settings(database));
    ASSERT_TRUE(database.execute(lowered));
    const Status status = check_settings(database);
    ASSERT_FALSE(status) << lowered;
    EXPECT_EQ(status.error().code, Code::ledger_settings);
  }
}

TEST_F(SqliteLedgerTest, TellsHowLongTheDiskTookForACommit) {
  auto ledger = open();
  carry_out(*ledger, {job("a")});
  EXPECT_GT(ledger->sync_us(), 0u);
  carry_out(*ledger, {Count{tenant, ""}});
  EXPECT_EQ(ledger->sync_us(), 0u) << "what only reads is not synced";
}

TEST_F(SqliteLedgerTest, ADamagedJobFailsAloneAndVisibly) {
  auto ledger = open();
  carry_out(*ledger, {job("a"), job("b"), job("c")});
  ledger.reset();
  meddle(path, "UPDATE job_bodies SET body = x'00' WHERE sequence = 2");
  ledger = open();
  const auto replies = carry_out(*ledger, {claim(3), Count{tenant, ""}});
  const auto& reply = std::get<ClaimReply>(*replies[0]);
  ASSERT_EQ(reply.jobs.size(), 2u);
  EXPECT_EQ(reply.jobs[1].job, "c");
  ASSERT_EQ(reply.ended.size(), 1u);
  EXPECT_EQ(reply.ended[0].job, "b");
  EXPECT_EQ(std::get<CountReply>(*replies[1]).counts, (JobCounts{0, 2, 0, 1, 0, 0}));
  const auto read = carry_out(*ledger, {reading("results")});
  EXPECT_NE(std::get<ReadStreamReply>(*read[0]).entries.at(0).body.find("ledger_corrupt"),
            std::string::npos);
}

TEST_F(SqliteLedgerTest, ADamagedEntryIsReportedAndNotServed) {
  for (const char* damage : {"UPDATE entries SET body = x'00' WHERE number = 2",
                             "DELETE FROM entries WHERE number = 2"}) {
    SCOPED_TRACE(damage);
    std::filesystem::remove(path);
    auto ledger = open();
    for (int i = 0; i < 3; ++i) carry_out(*ledger, {Append{tenant, "log", "j", "body"}});
    ledger.reset();
    meddle(path, damage);
    ledger = open();
    ReadStream read = reading("log");
    const auto before = carry_out(*ledger, {read});
    EXPECT_EQ(std::get<ReadStreamReply>(*before[0]).entries.size(), 1u);
    read.from = 2;
    const auto at = carry_out(*ledger, {read});
    ASSERT_FALSE(at[0]);
    EXPECT_EQ(at[0].error().code, Code::ledger_corrupt);
    EXPECT_NE(at[0].error().message.find("entry 2"), std::string::npos);
    read.from = 3;
    EXPECT_TRUE(carry_out(*ledger, {read})[0]);
  }
}

TEST_F(SqliteLedgerTest, DamagedTablesStopTheLedger) {
  const std::vector<std::pair<const char*, Operation>> cases{
      {"DELETE FROM jobs", claim(1)},
      {"UPDATE jobs SET state = 2", claim(1)},
      {"UPDATE jobs SET state = 2", ClaimShared{claim(1), {{tenant, 0, 256, 100}}}},
      {"PRAGMA ignore_check_constraints=1; UPDATE jobs SET state = 9", GetJob{tenant, "a"}}};
  for (const auto& [damage, operation] : cases) {
    SCOPED_TRACE(damage);
    std::filesystem::remove(path);
    auto ledger = open();
    carry_out(*ledger, {job("a")});
    ledger.reset();
    meddle(path, damage);
    ledger = open();
    const auto replies = ledger->apply(std::span(&operation, 1), start_us);
    ASSERT_FALSE(replies);
    EXPECT_EQ(replies.error().code, Code::ledger_corrupt);
    const std::vector<Operation> harmless{Count{tenant, ""}};
    EXPECT_FALSE(ledger->apply(harmless, start_us)) << "it stays stopped";
    EXPECT_FALSE(ledger->idle());
  }
}

TEST_F(SqliteLedgerTest, ThePlansOfHotStatementsUseTheirIndexes) {
  open();
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  const auto plan = [&](const std::string& sql) {
    std::string out;
    sqlite3_exec(
        db, ("EXPLAIN QUERY PLAN " + sql).c_str(),
        [](void* to, int, char** columns, char**) {
          static_cast<std::string*>(to)->append(columns[3]).append("\n");
          return 0;
        },
        &out, nullptr);
    return out;
  };
  for (const char* sql :
       {"SELECT priority, sequence, job, deadline_us FROM queue WHERE tenant = ?1 AND suspect = ?2 "
        "AND model = ?3 AND kv = ?4 ORDER BY priority, sequence",
        "SELECT priority, sequence, job, deadline_us FROM queue WHERE tenant = ?1 AND suspect = ?2 "
        "AND model = ?3 AND kv = ?4 AND (priority, sequence) > (?5, ?6) "
        "ORDER BY priority, sequence LIMIT ?7",
        "SELECT l.engine, l.until_us, l.job, j.cancel FROM leases l LEFT JOIN jobs j ON "
        "j.tenant = l.tenant AND j.job = l.job WHERE l.lease = ?1",
        "SELECT b.checksum, b.body FROM jobs j LEFT JOIN job_bodies b ON b.tenant = j.tenant AND "
        "b.sequence = j.sequence WHERE j.tenant = ?1 AND j.job = ?2",
        "SELECT suspect FROM queue WHERE tenant = ?1 AND suspect > ?2 ORDER BY suspect LIMIT 1",
        "SELECT tenant, job FROM jobs WHERE incident = ?1 AND incident <> 0 ORDER BY sequence",
        "SELECT job FROM jobs WHERE tenant = ?1 AND deadline_us <= ?2 AND deadline_us IS NOT NULL "
        "AND state < 2 ORDER BY deadline_us, sequence LIMIT ?3",
        "SELECT job FROM jobs WHERE tenant = ?1 AND batch = ?2 AND batch <> '' AND state = ?3 AND "
        "sequence > ?4 AND NOT (state = 1 AND cancel) ORDER BY sequence LIMIT ?5"}) {
    const std::string found = plan(sql);
    EXPECT_NE(found.find("SEARCH"), std::string::npos) << sql << "\n" << found;
    EXPECT_EQ(found.find("SCAN"), std::string::npos) << sql << "\n" << found;
    EXPECT_EQ(found.find("TEMP B-TREE"), std::string::npos) << sql << "\n" << found;
  }
  // This one reads and sorts the suspects, but nothing else of the queue.
  const std::string suspects = plan(
      "SELECT q.model, q.kv, q.suspect < ?2, count(*), min(j.suspect_us), j.batch FROM queue q "
      "CROSS JOIN jobs j ON j.tenant = q.tenant AND j.job = q.job WHERE q.tenant = ?1 AND "
      "q.suspect > 0 GROUP BY 1, 2, 3, 6 ORDER BY 1, 2, 3, 6");
  EXPECT_NE(suspects.find("SEARCH q USING PRIMARY KEY (tenant=? AND suspect>?)"), std::string::npos)
      << suspects;
  EXPECT_EQ(suspects.find("SCAN"), std::string::npos) << suspects;
  sqlite3_close(db);
}

TEST_F(SqliteLedgerTest, TheBallastIsRealAndComesBack) {
  SqliteLedgerOptions options = plain();
  options.ballast_bytes = 3 * limits::MiB;
  open(options);
  EXPECT_EQ(std::filesystem::file_size(path + ".ballast"), 3 * limits::MiB);
  std::filesystem::remove(path + ".ballast");
  open(options);
  EXPECT_EQ(std::filesystem::file_size(path + ".ballast"), 3 * limits::MiB);
}

class FullDiskTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Ledger>> try_to_open() {
    SqliteLedgerOptions options = plain();
    options.env = &env;
    options.vfs = disk.vfs_name();
    options.ballast_bytes = limits::MiB;
    return open_sqlite_ledger("ledger", std::move(options));
  }
  void open() {
    auto opened = try_to_open();
    ASSERT_TRUE(opened) << opened.error().text();
    ledger = *std::move(opened);
  }
  void SetUp() override {
    open();
    SubmitJob big = job("big");
    big.body.assign(100'000, 'b');
    ASSERT_TRUE(carry_out(*ledger, {job("a"), job("b"), job("c"), big})[3]);
    for (const auto& claimed : claims(4)) leases.push_back(claimed.lease);
  }
  std::vector<ClaimedJob> claims(std::uint32_t n) {
    return std::get<ClaimReply>(*carry_out(*ledger, {claim(n)})[0]).jobs;
  }
  Finish end(std::size_t i) {
    return {leases[i], JobState::completed, std::string(200'000, 'r'), ""};
  }

  PowerCutDisk disk;
  FullDiskEnv env{disk};
  std::unique_ptr<Ledger> ledger;
  std::vector<LeaseId> leases;
};

TEST_F(FullDiskTest, RefusesNewWorkFirstAndStillCommitsResults) {
  disk.capacity(disk.used() + 300'000);
  auto replies = carry_out(*ledger, {job("d"), end(0), Append{tenant, "rejected", "", "x"}});
  ASSERT_FALSE(replies[0]);
  EXPECT_EQ(replies[0].error().code, Code::disk_full);
  EXPECT_TRUE(replies[1]);
  ASSERT_FALSE(replies[2]);
  EXPECT_EQ(replies[2].error().code, Code::disk_full);
  EXPECT_TRUE(disk.file("ledger.ballast").exists) << "there was room without it";
  replies = carry_out(*ledger, {end(1)});
  EXPECT_TRUE(replies[0]);
  EXPECT_FALSE(disk.file("ledger.ballast").exists) << "its space went to the result";
  EXPECT_TRUE(carry_out(*ledger, {end(2)})[0]);
}

TEST_F(FullDiskTest, AKnownJobStillGetsItsAnswer) {
  disk.capacity(disk.used() + 300'000);
  SubmitJob other = job("b");
  other.hash = "another";
  auto replies = carry_out(*ledger, {job("a"), other, job("new"), end(0)});
  ASSERT_TRUE(replies[0]) << replies[0].error().text();
  EXPECT_TRUE(std::get<SubmitReply>(*replies[0]).known);
  EXPECT_EQ(std::get<SubmitReply>(*replies[0]).state, JobState::leased);
  ASSERT_FALSE(replies[1]);
  EXPECT_EQ(replies[1].error().code, Code::conflict);
  ASSERT_FALSE(replies[2]);
  EXPECT_EQ(replies[2].error().code, Code::disk_full);
  // The same where not even a result fits.
  disk.capacity(disk.used());
  Finish huge = end(1);
  huge.result.assign(3 * limits::MiB, 'r');
  replies = carry_out(*ledger, {huge, job("a"), job("new")});
  EXPECT_EQ(replies[0].error().code, Code::disk_full);
  ASSERT_TRUE(replies[1]) << replies[1].error().text();
  EXPECT_EQ(std::get<SubmitReply>(*replies[1]).state, JobState::completed);
  EXPECT_EQ(replies[2].error().code, Code::disk_full);
}

TEST_F(FullDiskTest, TakesWorkAgainWhenThereIsRoom) {
  disk.capacity(disk.used());
  EXPECT_TRUE(carry_out(*ledger, {end(0)})[0]);
  EXPECT_FALSE(disk.file("ledger.ballast").exists);
  EXPECT_FALSE(carry_out(*ledger, {job("d")})[0]);
  disk.capacity(disk.used() + 10 * limits::MiB);
  EXPECT_TRUE(carry_out(*ledger, {job("d")})[0]);
  EXPECT_TRUE(disk.file("ledger.ballast").exists);
}

TEST_F(FullDiskTest, OpensAgainWithTheSpaceOfTheBallast) {
  ledger = nullptr;
  disk.capacity(disk.used());
  open();
  EXPECT_FALSE(disk.file("ledger.ballast").exists);
  EXPECT_FALSE(carry_out(*ledger, {job("d")})[0]) << "there is no room for new work";
  EXPECT_TRUE(carry_out(*ledger, {end(0)})[0]);
  ledger = nullptr;
  disk.capacity(1);
  const auto opened = try_to_open();
  ASSERT_FALSE(opened) << "nothing is left to give";
  EXPECT_EQ(opened.error().text().find("disk_full: ledger ledger: database or disk is full"), 0u);
}

TEST_F(FullDiskTest, WithoutEvenTheBallastNothingIsLostOrBroken) {
  disk.capacity(disk.used());
  std::vector<Operation> too_much;
  Finish huge = end(0);
  huge.result.assign(3 * limits::MiB, 'r');
  too_much.emplace_back(huge);
  too_much.emplace_back(Count{tenant, ""});
  const auto replies = carry_out(*ledger, too_much);
  ASSERT_FALSE(replies[0]);
  EXPECT_EQ(replies[0].error().code, Code::disk_full);
  EXPECT_EQ(std::get<CountReply>(*replies[1]).counts.leased, 4u);
  disk.capacity(0);
  EXPECT_TRUE(carry_out(*ledger, {huge})[0]) << "the same end, sent again";
}

TEST(FailingDisk, AFailedSyncStopsTheLedger) {
  PowerCutDisk disk;
  SqliteLedgerOptions options = plain();
  options.env = &disk.env();
  options.vfs = disk.vfs_name();
  auto ledger = open_sqlite_ledger("ledger", std::move(options));
  ASSERT_TRUE(ledger);
  const std::vector<Operation> first{job("a")};
  disk.cut_at(disk.calls() + 3);
  const auto replies = (*ledger)->apply(first, start_us);
  ASSERT_FALSE(replies);
  EXPECT_EQ(replies.error().code, Code::io_error);
  disk.restore(1);  // the disk works again, but the ledger must not trust it
  const std::vector<Operation> second{job("b")};
  EXPECT_FALSE((*ledger)->apply(second, start_us));
}

}  // namespace
}  // namespace millrace::broker::test
