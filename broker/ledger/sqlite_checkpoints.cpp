#include "broker/ledger/sqlite_checkpoints.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <utility>

namespace millrace::broker {
namespace {

// A rest of at most this share of a checkpoint's pages is copied between two commits: some 250
// pages, which take about 1 ms with the sync.
constexpr int rest_share = 8;

// A checkpoint that reads the index of the log just when a commit writes it may take the lock of
// writers for some microseconds, to read it again. The next commit waits for it.
constexpr int writer_patience_ms = 10'000;

// SQLite itself syncs the file only where a checkpoint has copied the whole log. Syncing it after
// each leaves little to the checkpoint that a commit waits for.
Status sync_file(Database& by) {
  sqlite3_file* file = nullptr;
  int rc = sqlite3_file_control(by.handle(), "main", SQLITE_FCNTL_FILE_POINTER,
                                static_cast<void*>(&file));
  if (rc == SQLITE_OK) rc = file->pMethods->xSync(file, SQLITE_SYNC_NORMAL | SQLITE_SYNC_DATAONLY);
  if (rc == SQLITE_OK) return {};
  return fail(Code::io_error,
              "ledger " + by.path() + ": syncing after a checkpoint: " + sqlite3_errstr(rc),
              "look at the disk, then start again");
}

}  // namespace

SqliteCheckpoints::SqliteCheckpoints(Database& database, PacedWrites& paced,
                                     CheckpointOptions options)
    : database_(database), paced_(paced), options_(options) {}

SqliteCheckpoints::~SqliteCheckpoints() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Status SqliteCheckpoints::open(const std::string& vfs, const DurabilitySettings& settings) {
  sqlite3_wal_hook(
      database_.handle(),
      [](void* pages, sqlite3*, const char*, int count) {
        *static_cast<int*>(pages) = count;
        return SQLITE_OK;
      },
      &log_pages_);
  MILLRACE_TRY(copy_between_commits(SQLITE_CHECKPOINT_TRUNCATE));
  sqlite3_busy_timeout(database_.handle(), writer_patience_ms);
  MILLRACE_TRY(copier_.open(database_.path(), vfs));
  MILLRACE_TRY(settle_settings(copier_, settings));
  // Another VFS need not keep the file where the system finds it.
  if (vfs.empty()) MILLRACE_TRY(paced_.attach(copier_));
  if (options_.own_thread) thread_ = std::thread([this] { serve(); });
  return {};
}

SqliteCheckpoints::Ended SqliteCheckpoints::copy(Database& by, int mode) {
  Ended ended;
  const int rc = sqlite3_wal_checkpoint_v2(by.handle(), nullptr, mode, &ended.pages, &ended.copied);
  if (rc == SQLITE_OK) return ended;
  ended.pages = ended.copied = -1;
  // Without room for the checkpoint the log keeps its pages; waiting loses nothing. And a
  // checkpoint beside commits is told to come again where it reads the index of the log just when a
  // commit writes it.
  const bool may_wait =
      (rc & 0xff) == SQLITE_FULL || ((rc & 0xff) == SQLITE_BUSY && &by == &copier_);
  if (!may_wait) ended.status = fail(by.error("checkpointing the write-ahead log"));
  return ended;
}

SqliteCheckpoints::Ended SqliteCheckpoints::copy_and_sync() {
  Ended ended = copy(copier_, SQLITE_CHECKPOINT_PASSIVE);
  if (ended.status && ended.copied > 0) ended.status = sync_file(copier_);
  return ended;
}

Status SqliteCheckpoints::note(const Ended& ended) {
  MILLRACE_TRY(ended.status);
  if (ended.copied >= 0) copied_pages_ = ended.copied;
  return {};
}

Status SqliteCheckpoints::copy_between_commits(int mode) {
  const Ended ended = copy(database_, mode);
  if (ended.pages >= 0) log_pages_ = ended.pages;
  if (mode == SQLITE_CHECKPOINT_TRUNCATE && ended.pages >= 0) peak_pages_ = 0;
  rest_follows_ = false;
  return note(ended);
}

Status SqliteCheckpoints::copy_beside_commits() {
  rest_follows_ = true;
  if (!options_.own_thread) return note(copy_and_sync());
  {
    const std::lock_guard lock(mutex_);
    wanted_ = running_ = true;
  }
  changed_.notify_one();
  return {};
}

void SqliteCheckpoints::serve() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return wanted_ || stopping_; });
    if (stopping_) return;
    wanted_ = false;
    lock.unlock();
    Ended ended = copy_and_sync();
    lock.lock();
    ended_ = std::move(ended);
    running_ = false;
    changed_.notify_all();
  }
}

Status SqliteCheckpoints::wait_for_copier() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !running_; });
  const auto ended = std::exchange(ended_, std::nullopt);
  return ended ? note(*ended) : Status();
}

Status SqliteCheckpoints::empty_log() {
  paced_.hurry(true);
  MILLRACE_TRY(wait_for_copier());
  return copy_between_commits(SQLITE_CHECKPOINT_TRUNCATE);
}

Status SqliteCheckpoints::step(bool resting) {
  const int enough = static_cast<int>(options_.pages);
  peak_pages_ = std::max(peak_pages_, log_pages_);
  const bool too_long = static_cast<std::uint64_t>(peak_pages_) * page_bytes > options_.log_bytes;
  paced_.hurry(too_long || log_pages_ - copied_pages_ > 2 * enough);
  if (!too_long) {
    const std::lock_guard lock(mutex_);
    if (running_) return {};
  }
  MILLRACE_TRY(wait_for_copier());
  // A commit after a complete checkpoint starts the log again from its beginning.
  if (log_pages_ < copied_pages_) copied_pages_ = 0;
  const int waiting = log_pages_ - copied_pages_;
  if (waiting == 0) rest_follows_ = false;
  if (waiting == 0 || (waiting < enough && !rest_follows_ && !resting)) return {};
  if (!too_long && waiting > enough / rest_share) return copy_beside_commits();
  return copy_between_commits(too_long ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE);
}

}  // namespace millrace::broker
