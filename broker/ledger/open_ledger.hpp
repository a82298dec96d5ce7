#pragma once
// Opens a ledger by its place: a folder, or a URL.
//
//   FOLDER, sqlite:///FOLDER   an SQLite file in the folder, which is created where it is missing
//   postgresql://...           a database, as libpq reads the URL: postgresql://USER@HOST/DATABASE
//   memory:                    in memory: acknowledged jobs are lost when the process ends
//
// Errors: usage (a place that is none of these, with a hint), and those of the store. Thread
// safety: pure functions; two calls open two ledgers.
#include <memory>
#include <string>
#include <vector>

#include "broker/ledger/disk_reserve.hpp"
#include "broker/ledger/ledger.hpp"
#include "schemas/base/env.hpp"

namespace millrace::broker {

inline constexpr const char* ledger_file = "ledger.sqlite";  // in its folder

struct LedgerPlace {
  enum class Kind : std::uint8_t { sqlite, memory, postgres };
  Kind kind = Kind::sqlite;
  std::string folder;   // of an SQLite ledger
  std::string url{};    // of a database; it may hold a password
  std::string shown{};  // for logs: the place as it was given, without a password
};

Result<LedgerPlace> parse_ledger_place(const std::string& text);

struct OpenLedgerOptions {
  Publish publish;           // required
  ReadColumns read_columns;  // required for a ledger of an earlier version that holds jobs
  Env* env = nullptr;        // required; not owned
  std::shared_ptr<const DiskMarks> disk_marks{};  // null: none
  std::string backups{};  // the folder of backups; empty: `backups` in the ledger's folder
  std::string broker{};   // names the broker in a database; empty: a random id
};

// Returns the handles on the ledger, one for each batch that may be in flight: see LedgerThread.
Result<std::vector<std::unique_ptr<Ledger>>> open_ledger(const LedgerPlace& place,
                                                         OpenLedgerOptions options);

}  // namespace millrace::broker
