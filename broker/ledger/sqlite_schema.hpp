#pragma once
// The ledger's settings and tables in SQLite. README.md describes the columns and explains the
// settings.
// Thread safety: pure functions over one connection.
#include <string>

#include "broker/ledger/sqlite_database.hpp"
#include "broker/ledger/sqlite_ledger.hpp"

namespace millrace::broker {

inline constexpr int ledger_version = 12;              // PRAGMA user_version
inline constexpr int ledger_application = 0x4d4c5243;  // PRAGMA application_id, "MLRC"

// `until_resumed` of records.hpp in SQL: a partial index serves a query that has the same number.
#define MILLRACE_UNTIL_RESUMED "9223372036854775807"

// The settings that durability depends on. Only the test of crash points, which must notice weaker
// ones, sets others.
struct DurabilitySettings {
  std::string synchronous = "FULL";
};

// Returns the version of the ledger, 0 for a new file. Call this first after opening: it
// changes nothing. Errors: ledger_in_use, ledger_newer, ledger_corrupt
// (the file of another program, or not an SQLite file, or a negative version, that of tables which
// a copy has not filled completely: sqlite_copy.hpp), io_error.
Result<int> ledger_version_of(Database& database);

// Applies the settings, reads them back, and refuses the ledger (ledger_settings) where one was not
// applied. Other errors: ledger_in_use, io_error.
Status settle_settings(Database& database, const DurabilitySettings& settings = {});
// Compares the connection's actual settings with the required ones.
Status check_settings(Database& database, const DurabilitySettings& settings = {});

// Brings the tables to `ledger_version`, each version in a transaction of its own. Errors: as
// ledger_version_of, disk_full, ledger_older where the ledger holds results in a form that this
// program does not read (it changes nothing then), and internal where `read_columns` is needed and
// missing.
struct MigrationInput {
  std::int64_t now_us = 0;
  ReadColumns read_columns;
};
Status migrate(Database& database, const MigrationInput& with);

// Rewrites a file that an earlier version made, so that it can give free pages back to the disk.
// This happens once, takes about as long as copying the file twice, and needs room for it. Without
// this room it says so in the log and leaves the file as it is: free pages are then used again, but
// the file does not shrink. Errors: those of the database.
Status allow_shrinking(Database& database);

}  // namespace millrace::broker
