#pragma once
// Checks a ledger as a whole, such as a backup, and restores one from a backup.
// Thread safety: pure functions over files and databases.
#include <cstdint>
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::broker {

std::string ledger_engine_version();  // "SQLite 3.40.1"

struct LedgerReport {
  int version = 0;
  std::uint64_t jobs = 0, results = 0, streams = 0;
};

// Reads everything in the folder's ledger: SQLite's own check of the file, the checksum of each
// body and result, and the rules between the tables (table_rules.hpp; those of an earlier version
// are checked once a broker has migrated it). Changes nothing. Errors: ledger_corrupt (what is
// wrong, and where), ledger_in_use, ledger_newer, not_found.
Result<LedgerReport> verify_ledger(const std::string& folder);

// The same of the ledger in a database, in one snapshot: a broker may serve it meanwhile. The
// server looks after the form of its own files. Errors also: ledger_older, and those of the
// connection.
Result<LedgerReport> verify_postgres_ledger(const std::string& url,
                                            const std::string& schema = "millrace");

// Copies the ledger of `backup` to `folder`, which must hold none, and verifies both. The restored
// ledger gets a new epoch, because its streams may be shorter than their readers know, and lease
// numbers that no engine has, because some were handed out after the backup. Errors: those of
// verify_ledger, conflict (there is a ledger), disk_full, io_error.
Result<LedgerReport> restore_ledger(const std::string& backup, const std::string& folder);

}  // namespace millrace::broker
