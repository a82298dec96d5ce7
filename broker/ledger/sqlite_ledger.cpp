#include "broker/ledger/sqlite_ledger.hpp"

#include <optional>

#include "broker/ledger/disk_reserve.hpp"
#include "broker/ledger/sqlite_backup.hpp"
#include "broker/ledger/sqlite_checkpoints.hpp"
#include "broker/ledger/sqlite_records.hpp"
#include "broker/ledger/sqlite_space.hpp"
#include "broker/ledger/sqlite_testing.hpp"
#include "broker/ledger/stored_ledger.hpp"
#include "broker/ledger/sync_times.hpp"

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
  std::uint64_t sync_us() const override { return sync_us_; }
  Result<BackUpReply> back_up(const BackUp& op) override { return backup_.step(op); }

 private:
  Status hold();

  const std::string path_;
  const SqliteLedgerOptions options_;
  const std::unique_ptr<Env> own_env_;
  Env& env_;
  const SystemClock system_clock_;
  const Clock& clock_;
  std::unique_ptr<FileLock> lock_;  // goes after the connections, and
  PacedWrites paced_writes_;        // these, too
  SyncTimes sync_times_;
  Database database_;
  SqliteCheckpoints checkpoints_{
      database_,
      paced_writes_,
      {options_.checkpoint_pages, options_.wal_bytes, options_.checkpoint_thread}};
  DiskReserve reserve_;
  SqliteBackup backup_{
      database_, env_,
      options_.backups.empty() ? parent_directory(path_) + "/backups" : options_.backups};
  std::optional<SqliteRecords> records_;
  std::optional<SqliteSpace> space_;
  bool writing_ = false;       // the transaction under way
  std::uint64_t sync_us_ = 0;  // of the last one
  std::int64_t last_commit_us_ = 0, last_space_us_ = 0;
};

// SQLite lets a process open a file several times; the ledger keeps counters in memory and must be
// alone.
Status SqliteStore::hold() {
  auto lock = env_.lock(path_);
  if (!lock && lock.error().code == Code::output_in_use) {
    return fail(Code::ledger_in_use, "ledger " + path_ + ": this process has it open already",
                "use another ledger");
  }
  if (!lock) return fail(lock.error());
  lock_ = *std::move(lock);
  return {};
}

Status SqliteStore::open(const DurabilitySettings& settings) {
  if (!options_.publish) return fail(Code::internal, "the ledger was opened without publish");
  MILLRACE_TRY(database_.open(path_, options_.vfs));
  MILLRACE_TRY(ledger_version_of(database_));
  MILLRACE_TRY(settle_settings(database_, settings));
  MILLRACE_TRY(hold());
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
  MILLRACE_TRY(checkpoints_.open(options_.vfs, settings));
  sync_times_.attach(database_);
  // Both files exist now; after this sync their names survive a power cut as well.
  MILLRACE_TRY(env_.sync_directory(parent_directory(path_)));
  return reserve_.keep();
}

Status SqliteStore::begin(bool writes) {
  writing_ = writes;
  sync_us_ = 0;
  sync_times_.take_us();  // that of a checkpoint
  return database_.execute(writes ? "BEGIN IMMEDIATE" : "BEGIN");
}

Status SqliteStore::commit() {
  records_->flush();
  database_.reset_statements();
  MILLRACE_TRY(database_.status());
  MILLRACE_TRY(database_.execute("COMMIT"));
  if (writing_) last_commit_us_ = clock_.monotonic_us();
  sync_us_ = sync_times_.take_us();
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
  return records_ ? checkpoints_.empty_log() : Status();  // none: it is not open yet
}

Status SqliteStore::idle() {
  const std::int64_t now_us = clock_.monotonic_us();
  const bool resting = now_us - last_commit_us_ >= quiet_us;
  if (resting) MILLRACE_TRY(reserve_.keep());
  if (now_us - last_space_us_ >= us_per_ms * options_.space_pause.count()) {
    last_space_us_ = now_us;
    MILLRACE_TRY(space_->give_back(space_step_us));
  }
  return checkpoints_.step(resting);
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
