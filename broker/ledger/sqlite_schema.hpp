#pragma once
// The ledger's settings and tables in SQLite. Tables by column, and why each setting: README.md.
// Thread safety: pure functions over one connection.
#include <string>

#include "broker/ledger/sqlite_database.hpp"
#include "broker/ledger/sqlite_ledger.hpp"

namespace millrace::broker {

inline constexpr int ledger_version = 3;               // PRAGMA user_version
inline constexpr int ledger_application = 0x4d4c5243;  // PRAGMA application_id, "MLRC"

// The settings that durability stands on. Only the test that must notice their absence asks for
// others.
struct DurabilitySettings {
  std::string synchronous = "FULL";
};

// The version found, 0 for a new file. The first thing to ask of an opened file: it takes the
// exclusive lock and changes nothing. Errors: ledger_in_use, ledger_newer, ledger_corrupt (another
// program's file, or none of SQLite's), io_error.
Result<int> ledger_version_of(Database& database);

// Sets them, reads them back, and refuses the ledger (ledger_settings) where one did not take.
// Other errors: ledger_in_use, io_error.
Status settle_settings(Database& database, const DurabilitySettings& settings = {});
// Compares what the connection really uses with what it must.
Status check_settings(Database& database, const DurabilitySettings& settings = {});

// Brings the tables to `ledger_version`, each version in a transaction of its own. Errors: as
// ledger_version_of, disk_full, and internal where `read_columns` is needed and missing.
struct MigrationInput {
  std::int64_t now_us = 0;
  ReadColumns read_columns;
};
Status migrate(Database& database, const MigrationInput& with);

}  // namespace millrace::broker
