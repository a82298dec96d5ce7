#include "broker/ledger/sqlite_ledger.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <optional>

#include "broker/ledger/disk_reserve.hpp"
#include "broker/ledger/sqlite_backup.hpp"
#include "broker/ledger/sqlite_records.hpp"
#include "broker/ledger/sqlite_space.hpp"
#include "broker/ledger/sqlite_testing.hpp"
#include "broker/ledger/stored_ledger.hpp"

namespace millrace::broker {
namespace {

constexpr std::int64_t space_step_us = 1'000;
// After so long without a commit a checkpoint copies whatever the log holds.
constexpr std::int64_t quiet_us = 100'000;

class SqliteStore final : public LedgerStore {
 public:
  SqliteStore(std::string path, SqliteLedgerOptions options)
      : path_(std::move(path)),
        options_(std::move(options)),
        own_env_(options_.env == nullptr ? posix_env() : nullptr),
        env_(options_.env == nullptr ? *own_env_ : *options_.env),
        clock_(options_.clock == nullptr ? system_clock_ : *options_.clock),
        reserve_(env_, path_ + ".ballast", options_.ballast_bytes, options_.disk_marks) {}

  Status open(const DurabilitySettings& settings);

  Records& records() override { return *records_; }
  Status begin(bool writes) override;
  Status commit() override;
  Status roll_back() override;
  Status room_for(std::uint64_t bytes) override { return reserve_.room_for(bytes); }
  Status release_reserve() override;
  Status idle() override;
  Result<BackUpReply> back_up(const BackUp& op) override { return backup_.step(op); }

 private:
  Status checkpoint(int mode);
  Status fold_log(bool resting);

  const std::string path_;
  const SqliteLedgerOptions options_;
  const std::unique_ptr<Env> own_env_;
  Env& env_;
  const SystemClock system_clock_;
  const Clock& clock_;
  Database database_;
  DiskReserve reserve_;
  SqliteBackup backup_{
      database_, env_,
      options_.backups.empty() ? parent_directory(path_) + "/backups" : options_.backups};
  std::optional<SqliteRecords> records_;
  std::optional<SqliteSpace> space_;
  bool writing_ = false;                  // the transaction under way
  int log_pages_ = 0, folded_pages_ = 0;  // in the write-ahead log; those checkpointed of them
  int peak_pages_ = 0;  // most pages of the log since it was truncated: the size of its file
  std::int64_t last_commit_us_ = 0, last_space_us_ = 0;
};

Status SqliteStore::open(const DurabilitySettings& settings) {
  if (!options_.publish) return fail(Code::internal, "the ledger was opened without publish");
  MILLRACE_TRY(database_.open(path_, options_.vfs));
  MILLRACE_TRY(ledger_version_of(database_));
  MILLRACE_TRY(settle_settings(database_, settings));
  MILLRACE_TRY(migrate(database_, {clock_.wall_us(), options_.read_columns}));
  MILLRACE_TRY(allow_shrinking(database_));
  space_.emplace(database_, options_.spare_pages, clock_);
  records_.emplace(database_);
  records_->load();
  MILLRACE_TRY(database_.status());
  if (records_->epoch().empty()) {
    return fail(Code::ledger_corrupt, "ledger " + path_ + " has no epoch",
                "restore the ledger from a backup");
  }
  sqlite3_wal_hook(
      database_.handle(),
      [](void* pages, sqlite3*, const char*, int count) {
        *static_cast<int*>(pages) = count;
        return SQLITE_OK;
      },
      &log_pages_);
  MILLRACE_TRY(checkpoint(SQLITE_CHECKPOINT_TRUNCATE));
  // Both files exist now; after this sync their names survive a power cut as well.
  MILLRACE_TRY(env_.sync_directory(parent_directory(path_)));
  return reserve_.keep();
}

Status SqliteStore::begin(bool writes) {
  writing_ = writes;
  return database_.execute(writes ? "BEGIN IMMEDIATE" : "BEGIN");
}

Status SqliteStore::commit() {
  records_->flush();
  database_.reset_statements();
  MILLRACE_TRY(database_.status());
  MILLRACE_TRY(database_.execute("COMMIT"));
  if (writing_) last_commit_us_ = clock_.monotonic_us();
  return {};
}

Status SqliteStore::roll_back() {
  database_.forget_failure();
  database_.reset_statements();
  // After some errors SQLite has rolled the transaction back itself.
  if (database_.in_transaction()) MILLRACE_TRY(database_.execute("ROLLBACK"));
  records_->load();
  return {};
}

Status SqliteStore::release_reserve() {
  MILLRACE_TRY(reserve_.release());
  return {};
}

Status SqliteStore::checkpoint(int mode) {
  int pages = 0, folded = 0;
  const int rc = sqlite3_wal_checkpoint_v2(database_.handle(), nullptr, mode, &pages, &folded);
  if (rc == SQLITE_OK) {
    log_pages_ = pages;
    folded_pages_ = folded;
    return {};
  }
  // Without room for the checkpoint the log keeps its pages; waiting loses nothing.
  if ((rc & 0xff) == SQLITE_FULL) return {};
  return fail(database_.error("checkpointing the write-ahead log"));
}

Status SqliteStore::idle() {
  const std::int64_t now_us = clock_.monotonic_us();
  const bool resting = now_us - last_commit_us_ >= quiet_us;
  if (resting) MILLRACE_TRY(reserve_.keep());
  if (now_us - last_space_us_ >= us_per_ms * options_.space_pause.count()) {
    last_space_us_ = now_us;
    MILLRACE_TRY(space_->give_back(space_step_us));
  }
  return fold_log(resting);
}

// Checkpoints, when the log has grown or nothing else is to be done.
Status SqliteStore::fold_log(bool resting) {
  peak_pages_ = std::max(peak_pages_, log_pages_);
  // A commit after a complete checkpoint starts the log again from its beginning.
  if (log_pages_ < folded_pages_) folded_pages_ = 0;
  const int waiting = log_pages_ - folded_pages_;
  if (waiting < static_cast<int>(options_.checkpoint_pages) && !(resting && waiting > 0)) return {};
  const bool cut = static_cast<std::uint64_t>(peak_pages_) * page_bytes > options_.wal_bytes;
  const Status done = checkpoint(cut ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE);
  if (cut) peak_pages_ = 0;
  return done;
}

RulesOptions rules_of(const SqliteLedgerOptions& options) {
  return {options.publish};
}

}  // namespace

Result<std::unique_ptr<LedgerStore>> open_sqlite_store(const std::string& path,
                                                       SqliteLedgerOptions options,
                                                       const DurabilitySettings& settings) {
  auto store = std::make_unique<SqliteStore>(path, options);
  Status opened = store->open(settings);
  if (!opened && opened.error().code == Code::disk_full) {
    // The space that is kept for results also lets a broker start on a full disk.
    store = nullptr;  // closes the file
    store = std::make_unique<SqliteStore>(path, std::move(options));
    MILLRACE_TRY(store->release_reserve());
    opened = store->open(settings);
  }
  if (!opened) return fail(opened.error());
  return store;
}

Result<std::unique_ptr<Ledger>> open_weakened_sqlite_ledger(const std::string& path,
                                                            SqliteLedgerOptions options,
                                                            const DurabilitySettings& settings) {
  RulesOptions rules = rules_of(options);
  MILLRACE_ASSIGN(auto store, open_sqlite_store(path, std::move(options), settings));
  return make_stored_ledger(std::move(store), std::move(rules));
}

Result<std::unique_ptr<Ledger>> open_sqlite_ledger(const std::string& path,
                                                   SqliteLedgerOptions options) {
  return open_weakened_sqlite_ledger(path, std::move(options), DurabilitySettings{});
}

}  // namespace millrace::broker
