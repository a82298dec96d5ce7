#pragma once
// The ledger in a file as the source or the target of a copy (ledger_copy.hpp).
//
// The lock of the file keeps brokers away. A target is filled without a journal and without syncs:
// what an interruption leaves has the mark, and the next copy removes the file. At the end the file
// is synced as a whole before the mark goes, in a commit of its own.
// Errors: as migrate_ledger. Thread safety: one thread at a time.
#include <memory>
#include <string>

#include "broker/ledger/ledger_copy.hpp"

namespace millrace::broker {

Result<std::unique_ptr<CopiedLedger>> open_sqlite_source(const std::string& folder);
Result<std::unique_ptr<CopyTarget>> open_sqlite_target(const std::string& folder);

}  // namespace millrace::broker
