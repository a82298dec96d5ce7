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

namespace millrace::broker {

struct SqliteLedgerOptions {
  EndBody end_body;  // required
  std::uint64_t max_queued_jobs = limits::queued_jobs;
  std::uint64_t ballast_bytes = limits::ballast_bytes;  // 0: none
  // Past this size the write-ahead log is cut back to nothing in the next idle().
  std::uint64_t wal_bytes = 64 * limits::MiB;
  // Seams for tests; empty means the operating system's.
  std::string vfs;                                           // name of an SQLite VFS
  std::function<Result<std::uint64_t>()> free_bytes;         // on the ledger's file system
  std::function<Status(const std::string&)> sync_directory;  // makes created names durable
};

// The folder must exist; the file is created where it is missing.
Result<std::unique_ptr<Ledger>> open_sqlite_ledger(const std::string& path,
                                                   SqliteLedgerOptions options);

}  // namespace millrace::broker
