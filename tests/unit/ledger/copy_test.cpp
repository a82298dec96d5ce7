// Copies of whole ledgers between a file and PostgreSQL: what arrives, what is noticed, what an
// interruption leaves, and what is refused.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <set>

#include "broker/ledger/ledger_copy.hpp"
#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/postgres_copy.hpp"
#include "broker/ledger/postgres_schema.hpp"
#include "broker/ledger/sqlite_copy.hpp"
#include "broker/ledger/sqlite_database.hpp"
#include "broker/ledger/sqlite_schema.hpp"
#include "broker/ledger/verify_ledger.hpp"
#include "tests/unit/ledger/changing_target.hpp"
#include "tests/unit/ledger/earlier_versions.hpp"
#include "tests/unit/ledger/random_operations.hpp"
#include "tests/unit/ledger/reply_text.hpp"

namespace millrace::broker::test {
namespace {

const CopyWatch nobody{};

class CopyTest : public testing::Test {
 protected:
  std::string place(const std::string& name) {
    std::filesystem::create_directories(folder.file(name));
    return folder.file(name);
  }
  std::string file(const std::string& name) { return place(name) + "/" + ledger_file; }

  // A ledger in a file with whatever so many random operations leave.
  void fill(const std::string& name, std::uint64_t seed, int steps = 400) {
    const auto ledger = open(file(name));
    RandomOperations random(seed);
    for (int step = 0; step < steps; ++step) {
      ASSERT_TRUE(ledger->apply(random.batch_of_operations(), random.now()));
      random.step();
    }
  }
  std::unique_ptr<Ledger> open_database(const std::string& broker = "") {
    auto store = open_postgres_store(url, {schema.name(), broker});
    EXPECT_TRUE(store) << store.error().text();
    return store ? make_stored_ledger(*std::move(store), {publish}) : nullptr;
  }
  Result<std::unique_ptr<CopiedLedger>> database() {
    return open_postgres_source(url, schema.name());
  }
  Result<std::unique_ptr<CopyTarget>> into_database() {
    return open_postgres_target(url, schema.name());
  }
  Result<CopyReport> to_database(const std::string& from, const CopyWatch& watch = nobody) {
    MILLRACE_ASSIGN(const auto source, open_sqlite_source(place(from)));
    MILLRACE_ASSIGN(const auto target, into_database());
    return copy_ledger(*source, *target, watch);
  }
  Result<CopyReport> to_file(const std::string& to, const CopyWatch& watch = nobody) {
    MILLRACE_ASSIGN(const auto source, database());
    MILLRACE_ASSIGN(const auto target, open_sqlite_target(place(to)));
    return copy_ledger(*source, *target, watch);
  }
  PostgresRows sql(const std::string& statement) {
    EXPECT_TRUE(direct.connected() || direct.connect());
    auto rows = direct.ask(statement);
    EXPECT_TRUE(direct.status()) << direct.status().error().text();
    return rows;
  }

  const TemporaryFolder folder;
  const std::string url = millrace::test::postgres_url();
  const PostgresSchema schema;
  PostgresConnection direct{url, schema.name()};
};

std::vector<std::string> rows_of(CopiedLedger& ledger, const CopiedTable& table) {
  std::vector<std::string> out;
  const auto reader = ledger.read(table);
  EXPECT_TRUE(reader);
  std::string row;
  while (reader) {
    const auto there = (*reader)->next(row);
    EXPECT_TRUE(there);
    if (!there || !*there) break;
    out.push_back(row);
  }
  return out;
}

void expect_equal(CopiedLedger& one, CopiedLedger& other) {
  for (const CopiedTable& table : copied_tables()) {
    const auto left = rows_of(one, table), right = rows_of(other, table);
    EXPECT_EQ(left.size(), right.size()) << table.name;
    EXPECT_TRUE(left == right) << table.name;
    EXPECT_TRUE(std::ranges::is_sorted(left, [&table](const auto& a, const auto& b) {
      return compare_keys(table, a, b) < 0;
    })) << table.name;
  }
  EXPECT_EQ(one.facts()->epoch, other.facts()->epoch);
  EXPECT_TRUE(*one.facts() == *other.facts());
}

void expect_refusal(const Error& error, Code code, const std::string& says) {
  EXPECT_EQ(code_name(error.code), code_name(code)) << error.text();
  EXPECT_NE(error.message.find(says), std::string::npos) << error.text();
  EXPECT_FALSE(error.hint.empty()) << error.text();
}

// Whoever adds a column or a table decides here what a copy does with it.
TEST_F(CopyTest, TheListNamesEveryColumnOfBothStores) {
  open(file("a"));
  open_database();
  Database in_file;
  ASSERT_TRUE(in_file.open(file("a"), ""));
  std::set<std::string> listed, of_file, of_database;
  for (const CopiedTable& table : copied_tables()) {
    for (const CopiedColumn& column : table.columns) {
      listed.insert(std::string(table.name) + "." + column.name);
    }
  }
  Statement columns(in_file,
                    "SELECT m.name || '.' || c.name FROM sqlite_master m, "
                    "pragma_table_info(m.name) c WHERE m.type = 'table' AND m.name NOT LIKE "
                    "'sqlite%' AND m.name NOT IN ('meta', 'counters')");
  for (bool row = columns.run(); row; row = columns.next()) of_file.insert(columns.text(0));
  const auto rows =
      sql("SELECT convert_to(table_name || '.' || column_name, 'UTF8') FROM "
          "information_schema.columns WHERE table_schema = '" +
          schema.name() +
          "' AND table_name NOT IN ('meta', 'migrations', 'handles', 'tenants', 'job_sequence', "
          "'lease_sequence', 'brokers', 'news') AND NOT (table_name = 'leases' AND column_name = "
          "'broker')");
  for (int row = 0; row < rows.size(); ++row) of_database.insert(rows.text(row, 0));
  EXPECT_EQ(listed, of_file);
  EXPECT_EQ(listed, of_database);
}

class RandomCopyTest : public CopyTest, public testing::WithParamInterface<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Seeds, RandomCopyTest, testing::Range<std::uint64_t>(1, 7));

// There and back: each row is the same, both pass for sound, and both go on alike.
TEST_P(RandomCopyTest, IsTheLedger) {
  fill("a", GetParam());
  const auto there = to_database("a");
  ASSERT_TRUE(there) << there.error().text();
  const auto sound = verify_postgres_ledger(url, schema.name());
  ASSERT_TRUE(sound) << sound.error().text();
  EXPECT_GT(sound->jobs, 0u);
  const auto back = to_file("b");
  ASSERT_TRUE(back) << back.error().text();
  {
    const auto source = open_sqlite_source(place("a")), copy = open_sqlite_source(place("b"));
    const auto between = database();
    ASSERT_TRUE(source && copy && between);
    expect_equal(**source, **between);
    expect_equal(**source, **copy);
  }
  for (std::size_t i = 0; i < there->tables.size(); ++i) {
    EXPECT_EQ(there->tables[i].checksum, back->tables[i].checksum) << there->tables[i].table;
  }
  const auto report = verify_ledger(place("b"));
  ASSERT_TRUE(report) << report.error().text();
  EXPECT_EQ(report->jobs, sound->jobs);

  const auto source = open(file("a")), in_database = open_database(), copy = open(file("b"));
  RandomOperations random(GetParam() + 100);
  for (int step = 0; step < 1000; ++step) random.step();  // after all that was
  for (int step = 0; step < 60; ++step) {
    const auto batch = random.batch_of_operations();
    const auto wanted = source->apply(batch, random.now());
    const auto second = in_database->apply(batch, random.now());
    const auto third = copy->apply(batch, random.now());
    ASSERT_TRUE(wanted && second && third);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(print((*wanted)[i]), print((*third)[i])) << step;
      // Sequences have gaps where a transaction asked for more than it used.
      EXPECT_EQ((*wanted)[i].has_value(), (*second)[i].has_value()) << step;
    }
    random.step();
  }
}

TEST_F(CopyTest, ADifferenceIsFoundByItsTableAndKey) {
  {
    const auto ledger = open(file("a"));
    ASSERT_TRUE(ledger->apply(std::vector<Operation>{job("j1"), job("j2"), job("j3")}, start_us));
  }
  struct Case {
    ChangingTarget::Change change;
    std::string table, says;
  };
  const std::vector<Case> cases{
      {ChangingTarget::Change::value, "job_bodies",
       "table job_bodies, tenant default, sequence 2: the row has other values"},
      {ChangingTarget::Change::missing, "jobs",
       "table jobs, tenant default, job j2: the target has no such row"},
      {ChangingTarget::Change::more, "jobs",
       "table jobs, tenant default, job j~: the source has no such row"}};
  for (const bool database : {false, true}) {
    for (const Case& one : cases) {
      const auto source = open_sqlite_source(place("a"));
      auto target = database ? into_database() : open_sqlite_target(place("b"));
      ASSERT_TRUE(source && target) << target.error().text();
      ChangingTarget changing(**target, one.table, one.change);
      const auto report = copy_ledger(**source, changing, nobody);
      ASSERT_FALSE(report) << one.says;
      expect_refusal(report.error(), Code::ledger_corrupt, one.says);
    }
  }
  // What is left has the mark, and the next copy begins anew.
  expect_refusal(try_open(file("b"), {}).error(), Code::ledger_corrupt, "not completed");
  EXPECT_TRUE(to_database("a"));
}

// Says no at the last table.
bool until_the_end(const CopyProgress& progress) {
  return std::string(progress.table) != "cursors";
}

TEST_F(CopyTest, WhatAnInterruptedCopyLeavesIsServedByNobody) {
  fill("a", 1);
  const auto stopped = to_database("a", until_the_end);
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, Code::interrupted);
  const auto served = open_postgres_store(url, {schema.name()});
  ASSERT_FALSE(served);
  expect_refusal(served.error(), Code::ledger_corrupt, "not completed");
  EXPECT_NE(served.error().hint.find("millrace migrate"), std::string::npos);
  expect_refusal(database().error(), Code::ledger_corrupt, "not completed");
  expect_refusal(verify_postgres_ledger(url, schema.name()).error(), Code::ledger_corrupt,
                 "not completed");
  const auto done = to_database("a");
  ASSERT_TRUE(done) << done.error().text();
  EXPECT_NE(open_database(), nullptr);

  ASSERT_FALSE(to_file("b", until_the_end));
  expect_refusal(try_open(file("b"), {}).error(), Code::ledger_corrupt, "not completed");
  expect_refusal(open_sqlite_source(place("b")).error(), Code::ledger_corrupt, "not completed");
  expect_refusal(verify_ledger(place("b")).error(), Code::ledger_corrupt, "not completed");
  ASSERT_TRUE(to_file("b"));
  EXPECT_NE(open(file("b")), nullptr);
}

// A transaction of a broker that began before the mark was set reads it in the next one.
TEST_F(CopyTest, ABrokerNoticesTheMarkWhileItRuns) {
  fill("a", 2);
  const auto ledger = open_database();
  ASSERT_FALSE(to_database("a", until_the_end));
  const auto refused = ledger->apply(std::vector<Operation>{job("j")}, start_us);
  ASSERT_FALSE(refused);
  expect_refusal(refused.error(), Code::ledger_corrupt, "not completed");
}

// The process is killed at each table in turn, while it copies and while it compares.
TEST_F(CopyTest, AKilledCopyBeginsAnew) {
  fill("a", 3);
  ASSERT_TRUE(to_database("a"));
  for (const CopiedTable& table : copied_tables()) {
    for (const std::string doing : {"copying", "comparing"}) {
      const pid_t child = fork();
      ASSERT_GE(child, 0);
      if (child == 0) {
        const auto source = open_sqlite_source(place("a"));
        const auto target = open_sqlite_target(place("b"));
        if (!source || !target) _exit(1);
        (void)copy_ledger(**source, **target, [&](const CopyProgress& progress) {
          if (std::string(progress.table) == table.name && progress.doing == doing) {
            ::raise(SIGKILL);
          }
          return true;
        });
        _exit(2);
      }
      int status = 0;
      ASSERT_EQ(waitpid(child, &status, 0), child);
      ASSERT_TRUE(WIFSIGNALED(status)) << table.name << " " << WEXITSTATUS(status);
      const auto refused = try_open(file("b"), {});
      ASSERT_FALSE(refused) << table.name;
      EXPECT_EQ(refused.error().code, Code::ledger_corrupt) << refused.error().text();
    }
  }
  ASSERT_TRUE(to_file("b"));
  const auto source = open_sqlite_source(place("a")), copy = open_sqlite_source(place("b"));
  ASSERT_TRUE(source && copy);
  expect_equal(**source, **copy);
}

TEST_F(CopyTest, OnlyAnEmptyLedgerIsFilled) {
  fill("a", 4);
  for (const Operation& operation :
       std::vector<Operation>{job("j"), Pause{tenant, "", ""}, Append{tenant, "s", "", "entry"}}) {
    std::filesystem::remove_all(folder.file("b"));
    const auto before = open(file("b"))->apply(std::vector<Operation>{operation}, start_us);
    ASSERT_TRUE(before && before->front());
    const auto refused = open_sqlite_target(place("b"));
    ASSERT_FALSE(refused);
    expect_refusal(refused.error(), Code::conflict, "must be empty");
    EXPECT_NE(open(file("b")), nullptr) << "it is served as before";
  }
  open(file("c"));
  EXPECT_TRUE(open_sqlite_target(place("c"))) << "it was served and is empty";

  {
    auto store = open_postgres_store(url, {schema.name()});
    ASSERT_TRUE(store);
    const auto ledger = make_stored_ledger(*std::move(store), {publish});
    ASSERT_TRUE(ledger->apply(std::vector<Operation>{job("j")}, start_us));
  }
  sql("UPDATE @.handles SET seen_us = 0");
  const auto refused = into_database();
  ASSERT_FALSE(refused);
  expect_refusal(refused.error(), Code::conflict, "its table jobs has 1 row");
  EXPECT_NE(open_database(), nullptr);
}

TEST_F(CopyTest, AnOlderLedgerIsLeftToItsBroker) {
  fill("a", 5);
  change(file("a"), back_to_version_11);
  const auto refused = open_sqlite_source(place("a"));
  ASSERT_FALSE(refused);
  expect_refusal(refused.error(), Code::ledger_older, "has version 11");
}

TEST_F(CopyTest, ALedgerThatIsServedIsNotCopied) {
  fill("a", 6);
  {
    const auto serving = open(file("a"));
    expect_refusal(open_sqlite_source(place("a")).error(), Code::ledger_in_use, "a broker serves");
  }
  EXPECT_TRUE(open_sqlite_source(place("a")));

  const auto serving = open_database("b1");
  ASSERT_TRUE(serving->apply(std::vector<Operation>{BeatBroker{60'000'000}}, start_us));
  const auto refused = database();
  ASSERT_FALSE(refused);
  expect_refusal(refused.error(), Code::ledger_in_use, "a broker serves");
  expect_refusal(into_database().error(), Code::ledger_in_use, "a broker serves");
  ASSERT_TRUE(serving->apply(std::vector<Operation>{BeatBroker{0}}, start_us));
  const auto source = database();
  ASSERT_TRUE(source) << source.error().text();
}

TEST_F(CopyTest, OneCopyAtATimeFillsATarget) {
  const auto first = into_database();
  ASSERT_TRUE(first) << first.error().text();
  expect_refusal(into_database().error(), Code::ledger_in_use, "another millrace migrate");
  const auto in_file = open_sqlite_target(place("b"));
  ASSERT_TRUE(in_file);
  expect_refusal(open_sqlite_target(place("b")).error(), Code::ledger_in_use, "another copy");
}

TEST_F(CopyTest, PlacesThatCannotBeCopiedAreNamed) {
  fill("a", 1, 5);
  const std::string a = place("a"), nowhere = folder.file("nowhere");
  const auto refused = [](const std::string& from, const std::string& to) {
    const auto report = migrate_ledger(from, to, nobody);
    EXPECT_FALSE(report);
    return report ? Error{} : report.error();
  };
  expect_refusal(refused(a, a), Code::usage, "both places are");
  expect_refusal(refused(a, "sqlite://" + a + "/."), Code::usage, "both places are");
  expect_refusal(refused("memory:", a), Code::usage, "in memory");
  expect_refusal(refused(a, "memory:"), Code::usage, "in memory");
  expect_refusal(refused(a, "mysql://x/y"), Code::usage, "is not known");
  expect_refusal(refused(nowhere, folder.file("b")), Code::not_found, "is absent");
  EXPECT_FALSE(std::filesystem::exists(folder.file("b"))) << "nothing was made";
  expect_refusal(refused(a, "postgresql:///x?host=/nowhere"), Code::ledger_unavailable, "");
  const auto file_to_file = migrate_ledger(a, folder.file("b"), nobody);
  ASSERT_TRUE(file_to_file) << file_to_file.error().text();
  EXPECT_TRUE(verify_ledger(folder.file("b")));
}

}  // namespace
}  // namespace millrace::broker::test
