#pragma once
// Makes the file of an earlier version out of one of today, by undoing what each version has added,
// and opens it. Thread safety: pure functions over one file.
#include <memory>
#include <string>
#include <utility>

#include "broker/ledger/sqlite_ledger.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {

void change(const std::string& path, const std::string& sql);  // runs SQL on a closed ledger

// In these tests a body "wants X" names the KV policy X, a body "says X" has the labels X, and a
// body "costs X" costs X tokens.
inline JobColumns read_columns(const Body& body) {
  if (body.starts_with("wants ")) return {body.substr(6), {}};
  if (body.starts_with("says ")) return {{}, body.substr(5)};
  if (body.starts_with("costs ")) return {{}, {}, std::stoull(body.substr(6))};
  return {};
}

inline Result<std::unique_ptr<Ledger>> try_open(const std::string& path, ReadColumns read) {
  SqliteLedgerOptions options;
  options.publish = publish;
  options.read_columns = std::move(read);
  options.ballast_bytes = 0;
  return open_sqlite_ledger(path, std::move(options));
}

inline std::unique_ptr<Ledger> open(const std::string& path) {
  auto opened = try_open(path, read_columns);
  EXPECT_TRUE(opened) << (opened ? "" : opened.error().text());
  return opened ? *std::move(opened) : nullptr;
}

// Undoes version 12: nothing told where the results of a batch begin.
#define BACK_TO_VERSION_11                  \
  "ALTER TABLE batches DROP COLUMN stream;" \
  "ALTER TABLE batches DROP COLUMN first;"  \
  "PRAGMA user_version=11;"
inline constexpr const char* back_to_version_11 = BACK_TO_VERSION_11;

// Undoes version 11 as well: ready jobs were not counted.
#define BACK_TO_VERSION_10 BACK_TO_VERSION_11 "DROP TABLE ready_counts; PRAGMA user_version=10;"
inline constexpr const char* back_to_version_10 = BACK_TO_VERSION_10;

// Undoes version 10 as well: nothing told what a prompt begins with.
#define BACK_TO_VERSION_9                 \
  BACK_TO_VERSION_10                      \
  "ALTER TABLE jobs DROP COLUMN prefix;"  \
  "ALTER TABLE queue DROP COLUMN prefix;" \
  "PRAGMA user_version=9;"
inline constexpr const char* back_to_version_9 = BACK_TO_VERSION_9;

// Undoes version 9 as well: nothing was paused.
#define BACK_TO_VERSION_8                   \
  BACK_TO_VERSION_9                         \
  "DROP INDEX jobs_set_aside;"              \
  "DROP TABLE pauses;"                      \
  "ALTER TABLE batches DROP COLUMN paused;" \
  "PRAGMA user_version=8;"
inline constexpr const char* back_to_version_8 = BACK_TO_VERSION_8;

// Undoes version 8 as well: a batch was a name.
#define BACK_TO_VERSION_7 BACK_TO_VERSION_8 "DROP TABLE batches; PRAGMA user_version=7;"
inline constexpr const char* back_to_version_7 = BACK_TO_VERSION_7;

// Undoes version 7 as well: no job waited for its start, and none told why it had failed.
#define BACK_TO_VERSION_6                       \
  BACK_TO_VERSION_7                             \
  "DROP INDEX jobs_by_start;"                   \
  "DROP INDEX jobs_failed;"                     \
  "ALTER TABLE jobs DROP COLUMN start_us;"      \
  "ALTER TABLE jobs DROP COLUMN error_code;"    \
  "ALTER TABLE jobs DROP COLUMN error_message;" \
  "ALTER TABLE jobs DROP COLUMN error_hint;"    \
  "PRAGMA user_version=6;"
inline constexpr const char* back_to_version_6 = BACK_TO_VERSION_6;

// Undoes version 6 as well: jobs had no cost.
#define BACK_TO_VERSION_5 \
  BACK_TO_VERSION_6       \
  "ALTER TABLE jobs DROP COLUMN cost_tokens; PRAGMA user_version=5;"
inline constexpr const char* back_to_version_5 = BACK_TO_VERSION_5;

// Undoes version 5 as well: nothing said how many jobs were suspected together.
#define BACK_TO_VERSION_4                           \
  BACK_TO_VERSION_5                                 \
  "DROP INDEX jobs_of_incident;"                    \
  "ALTER TABLE jobs DROP COLUMN incident;"          \
  "ALTER TABLE jobs DROP COLUMN among;"             \
  "UPDATE queue SET suspect = 1 WHERE suspect > 0;" \
  "PRAGMA user_version=4;"
inline constexpr const char* back_to_version_4 = BACK_TO_VERSION_4;

// Undoes version 4 as well: nothing had an age, and the file could not shrink.
#define BACK_TO_VERSION_3                          \
  BACK_TO_VERSION_4                                \
  "DROP INDEX jobs_by_end;"                        \
  "ALTER TABLE jobs DROP COLUMN ended_us;"         \
  "ALTER TABLE entries DROP COLUMN written_us;"    \
  "ALTER TABLE cursors DROP COLUMN moved_us;"      \
  "ALTER TABLE streams DROP COLUMN oldest;"        \
  "ALTER TABLE streams DROP COLUMN bytes;"         \
  "ALTER TABLE streams DROP COLUMN age_us;"        \
  "ALTER TABLE streams DROP COLUMN max_bytes;"     \
  "ALTER TABLE streams DROP COLUMN cursor_age_us;" \
  "PRAGMA auto_vacuum=NONE; VACUUM;"               \
  "PRAGMA user_version=3;"
inline constexpr const char* back_to_version_3 = BACK_TO_VERSION_3;

// Undoes version 3 as well: jobs had no labels.
inline constexpr const char* back_to_version_2 = BACK_TO_VERSION_3 R"sql(
ALTER TABLE jobs DROP COLUMN labels;
PRAGMA user_version=2;
)sql";

// Undoes version 2 as well: jobs and queue had no KV policy.
inline constexpr const char* back_to_version_1 = BACK_TO_VERSION_3 R"sql(
ALTER TABLE jobs DROP COLUMN labels;
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

}  // namespace millrace::broker::test
