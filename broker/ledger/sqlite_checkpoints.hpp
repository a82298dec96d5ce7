#pragma once
// Copies the pages of the write-ahead log into the ledger's file, so that the log does not grow.
//
// A checkpoint of 2,000 pages takes about 5 ms, and a commit must not wait so long. So it runs on a
// thread and a connection of its own, while the ledger's connection goes on committing to the end
// of the log. What came meanwhile is little; a second checkpoint copies it between two commits.
// Then the log is copied completely, and the next commit starts it again from its beginning.
//
// SQLite before 3.51.3 can lose pages where a checkpoint begins on a log that is copied completely
// while another connection starts the log again. This cannot happen here: one connection writes,
// one checkpoint runs at a time, it begins only where the log holds pages that are not copied yet,
// and SQLite does not start the log again before they are.
// Thread safety: the thread of the ledger's connection alone.
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "broker/ledger/paced_writes.hpp"
#include "broker/ledger/sqlite_database.hpp"
#include "broker/ledger/sqlite_schema.hpp"

namespace millrace::broker {

struct CheckpointOptions {
  std::uint32_t pages = 0;  // a checkpoint begins when the log has grown by so many
  // A larger log is copied between two commits and truncated; the commits wait for it.
  std::uint64_t log_bytes = 0;
  bool own_thread = true;  // false: the first part, too, runs within `step`, for tests
};

class SqliteCheckpoints {
 public:
  // `paced` takes over the writes of the second connection, and must outlive the first one.
  SqliteCheckpoints(Database& database, PacedWrites& paced, CheckpointOptions options);
  ~SqliteCheckpoints();  // waits for the checkpoint that runs
  SqliteCheckpoints(const SqliteCheckpoints&) = delete;
  SqliteCheckpoints& operator=(const SqliteCheckpoints&) = delete;

  // Copies what an earlier process left in the log and truncates it; opens the second connection.
  // `vfs` and `settings` are those of the ledger's connection. Errors: those of the database.
  Status open(const std::string& vfs, const DurabilitySettings& settings);

  // Does what is due. Call it between commits. `resting`: there was no commit for a while, so that
  // a small rest is copied, too. Errors: those of the database, also of a checkpoint that ended
  // since the last call. A disk without room for a checkpoint is no error: the log keeps its pages.
  Status step(bool resting);
  // Copies the whole log and truncates it, for the space that it takes on a full disk. Call it
  // between commits. Errors: as `step`.
  Status empty_log();

 private:
  struct Ended {
    Status status;
    int pages = 0, copied = 0;  // of the log; -1: it copied nothing and is to be tried again
  };

  Ended copy(Database& by, int mode);
  Ended copy_and_sync();
  Status note(const Ended& ended);
  Status wait_for_copier();
  Status copy_between_commits(int mode);
  Status copy_beside_commits();
  void serve();

  Database& database_;
  PacedWrites& paced_;
  const CheckpointOptions options_;
  Database copier_;
  int log_pages_ = 0, copied_pages_ = 0;
  int peak_pages_ = 0;         // most pages of the log since it was truncated: the size of its file
  bool rest_follows_ = false;  // a checkpoint has ended, and its rest is to be copied
  std::thread thread_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool wanted_ = false, running_ = false, stopping_ = false;
  std::optional<Ended> ended_;
};

}  // namespace millrace::broker
