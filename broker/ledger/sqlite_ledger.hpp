#pragma once
// The ledger in one SQLite file: `path`, with `path`-wal beside it and `path`.ballast, the reserve
// that lets results commit on a full disk. Schema and durability rules: README.md.
// Errors of opening: io_error, ledger_in_use, ledger_newer, ledger_corrupt, ledger_settings,
// disk_full. Thread safety: one thread at a time; open and use may be on different threads.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "broker/ledger/ledger.hpp"
#include "schemas/base/env.hpp"

namespace millrace::broker {

struct SqliteLedgerOptions {
  Publish publish;           // required
  ReadColumns read_columns;  // required where the ledger is of an earlier version and holds jobs
  std::uint64_t max_queued_jobs = limits::queued_jobs;
  std::uint64_t ballast_bytes = limits::ballast_bytes;  // 0: none
  // Under load the write-ahead log is folded into the database each time it has grown by so much:
  // little enough not to hold up the commits behind it for long, enough to write a busy page once
  // for many commits.
  std::uint32_t checkpoint_pages = 4096;
  // Past this size the write-ahead log is cut back to nothing in the next idle().
  std::uint64_t wal_bytes = 64 * limits::MiB;
  Env* env = nullptr;  // for the folder and the ballast; not owned; null: the machine's
  std::string vfs;     // name of an SQLite VFS; empty: the machine's. For tests.
};

// The folder must exist; the file is created where it is missing.
Result<std::unique_ptr<Ledger>> open_sqlite_ledger(const std::string& path,
                                                   SqliteLedgerOptions options);

}  // namespace millrace::broker
