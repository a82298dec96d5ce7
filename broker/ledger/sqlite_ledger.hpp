#pragma once
// The ledger in one SQLite file, `path`. Beside it are `path`-wal and `path`.ballast, the reserve
// that lets results commit on a full disk. README.md has the tables and the durability rules.
// Errors of opening: io_error, ledger_in_use, ledger_newer, ledger_older, ledger_corrupt,
// ledger_settings, disk_full. Thread safety: one thread at a time; it may be opened on another
// thread than it is used on.
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "broker/ledger/disk_reserve.hpp"
#include "broker/ledger/ledger.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/env.hpp"

namespace millrace::broker {

struct SqliteLedgerOptions {
  Publish publish;           // required
  ReadColumns read_columns;  // required for a ledger of an earlier version that holds jobs
  std::uint64_t ballast_bytes = limits::ballast_bytes;  // 0: none
  std::shared_ptr<const DiskMarks> disk_marks{};        // null: none
  // Under load a checkpoint runs each time the write-ahead log has grown by this many pages: enough
  // to write a busy page once for many commits, and few enough that the disk does not hold up the
  // syncs of commits for long.
  std::uint32_t checkpoint_pages = 2048;
  bool checkpoint_thread =
      true;  // false: checkpoints delay commits, at the same places in each run
  // Once the write-ahead log is larger than this, the next checkpoint truncates it.
  std::uint64_t wal_bytes = 64 * limits::MiB;
  // Free pages that the file keeps for new rows. More of them go back to the disk, by a step of at
  // most about 1 ms in each pause.
  std::uint32_t spare_pages = 4096;
  std::chrono::milliseconds space_pause{20};
  std::string backups;  // the folder of backups; empty: `backups` beside the file
  Env* env = nullptr;   // for the folder and the ballast; not owned; null: the real file system
  const Clock* clock = nullptr;  // for the pauses; not owned; null: the system's
  std::string vfs;               // name of an SQLite VFS, for tests; empty: the default
};

// Opens the ledger. The folder must exist; the file is created where it is missing.
Result<std::unique_ptr<Ledger>> open_sqlite_ledger(const std::string& path,
                                                   SqliteLedgerOptions options);

}  // namespace millrace::broker
