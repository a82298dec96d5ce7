#pragma once
// The ledger in PostgreSQL as the source or the target of a copy (ledger_copy.hpp).
//
// Source: one transaction with one snapshot, and locks on all tables under which others may read
// and not write. Where a broker's heartbeat still counts, the copy is refused; a broker that starts
// meanwhile waits for the locks.
// Target: the version in the table `meta` is negative as long as the copy is under way, and every
// transaction of a broker reads it. A lock on the table `migrations`, in a transaction that is open
// to the end, keeps a second copy away.
// Errors: as migrate_ledger. Thread safety: one thread at a time.
#include <memory>
#include <string>

#include "broker/ledger/ledger_copy.hpp"

namespace millrace::broker {

class PostgresBulk;

Result<std::unique_ptr<CopiedLedger>> open_postgres_source(const std::string& url,
                                                           const std::string& schema = "millrace");
Result<std::unique_ptr<CopyTarget>> open_postgres_target(const std::string& url,
                                                         const std::string& schema = "millrace");

// The rows of a table in the order of its key, in the transaction that is open. At most one reader
// exists at a time.
Result<std::unique_ptr<RowReader>> read_postgres_table(PostgresBulk& bulk,
                                                       const CopiedTable& table);
// Refuses a database without a ledger (not_found), and one of another version than this program's.
// `use` is what only this version can be: "copied".
Status check_postgres_version(PostgresBulk& bulk, const std::string& use);

}  // namespace millrace::broker
