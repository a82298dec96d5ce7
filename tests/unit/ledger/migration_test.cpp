// A ledger that an earlier version wrote: opened, brought up to date, nothing lost.
#include <sqlite3.h>

#include "broker/ledger/sqlite_schema.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

void change(const std::string& path, const std::string& sql) {
  sqlite3* db = nullptr;
  ASSERT_EQ(sqlite3_open(path.c_str(), &db), SQLITE_OK);
  char* message = nullptr;
  ASSERT_EQ(sqlite3_exec(db, sql.c_str(), nullptr, nullptr, &message), SQLITE_OK) << message;
  sqlite3_close(db);
}

std::unique_ptr<Ledger> open(const std::string& path) {
  SqliteLedgerOptions options;
  options.end_body = build_end;
  options.ballast_bytes = 0;
  auto opened = open_sqlite_ledger(path, std::move(options));
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().text());
  return opened ? *std::move(opened) : nullptr;
}

// As version 1 had them: no KV policy in jobs and queue.
constexpr const char* back_to_version_1 = R"sql(
ALTER TABLE jobs DROP COLUMN kv;
CREATE TABLE queue_1 (
  tenant TEXT NOT NULL,
  suspect INTEGER NOT NULL,
  model TEXT NOT NULL,
  priority INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  job TEXT NOT NULL,
  deadline_us INTEGER,
  PRIMARY KEY (tenant, suspect, model, priority, sequence)
) STRICT, WITHOUT ROWID;
INSERT INTO queue_1 SELECT tenant, suspect, model, priority, sequence, job, deadline_us FROM queue;
DROP TABLE queue;
ALTER TABLE queue_1 RENAME TO queue;
PRAGMA user_version=1;
)sql";

TEST(SqliteMigration, AQueueOfVersion1IsHandedOutInItsOrder) {
  const TemporaryFolder folder;
  const std::string path = folder.file("ledger");
  auto ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  SubmitJob urgent = job("urgent");
  urgent.priority = 0;
  SubmitJob any = job("any");
  any.model = "*";
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{job("a"), any, urgent, job("b")}, start_us));
  ASSERT_TRUE(ledger->apply(std::vector<Operation>{claim(1)}, start_us));
  ledger.reset();
  change(path, back_to_version_1);

  ledger = open(path);
  ASSERT_NE(ledger, nullptr);
  SubmitJob picky = job("picky");
  picky.kv = "r5/r3";
  Claim with = claim(10);
  with.kv = {"r5/r3"};
  const auto replies = ledger->apply(
      std::vector<Operation>{picky, claim(10), with, Finish{1, JobState::completed, "r", ""}},
      start_us);
  ASSERT_TRUE(replies);
  std::vector<std::string> given;
  for (const auto& one : std::get<ClaimReply>(*(*replies)[1]).jobs) given.push_back(one.job);
  EXPECT_EQ(given, (std::vector<std::string>{"a", "any", "b"}));
  EXPECT_EQ(std::get<ClaimReply>(*(*replies)[2]).jobs.at(0).job, "picky");
  EXPECT_TRUE((*replies)[3]) << "a lease of before is still good";
}

}  // namespace
}  // namespace millrace::broker::test
