#include "broker/ledger/sqlite_ledger.hpp"

#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "broker/ledger/disk_reserve.hpp"
#include "broker/ledger/sqlite_operations.hpp"
#include "broker/ledger/sqlite_testing.hpp"

namespace millrace::broker {
namespace {

using Steady = std::chrono::steady_clock;

constexpr std::uint64_t page_bytes = 4096;  // SQLite's default, which the ledger keeps
// After so long without a commit a checkpoint copies whatever the log holds.
constexpr std::chrono::milliseconds quiet{100};

template <class... Ops>
bool is_any(const Operation& op) {
  return (std::holds_alternative<Ops>(op) || ...);
}
bool only_reads(const Operation& op) {
  return is_any<FindLapsed, ReadStream, ListStreams, GetJob, Count>(op);
}
bool brings_work(const Operation& op) {
  return is_any<SubmitJob, Append>(op);
}
std::uint64_t work_bytes(const Operation& op) {
  if (const auto* submit = std::get_if<SubmitJob>(&op)) return submit->body.size();
  if (const auto* append = std::get_if<Append>(&op)) return append->body.size();
  return 0;
}

// Why operations are refused before they are tried.
struct Refusals {
  std::optional<Error> work;    // submits and appends
  std::optional<Error> writes;  // everything that changes something
};

class SqliteLedger final : public Ledger {
 public:
  SqliteLedger(std::string path, SqliteLedgerOptions options)
      : path_(std::move(path)),
        options_(std::move(options)),
        own_env_(options_.env == nullptr ? posix_env() : nullptr),
        env_(options_.env == nullptr ? *own_env_ : *options_.env),
        reserve_(env_, path_ + ".ballast", options_.ballast_bytes) {}

  Status open(const DurabilitySettings& settings);
  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                           std::int64_t now_us) override;
  Status idle() override;

 private:
  using Replies = std::vector<Result<Reply>>;
  Result<Replies> attempt(std::span<const Operation> operations, std::int64_t now_us,
                          const Refusals& refusals);
  Result<Reply> refused(const Operation& op, const Error& error);
  Status commit(bool writes);
  void roll_back();
  Status checkpoint(int mode);

  const std::string path_;
  const SqliteLedgerOptions options_;
  const std::unique_ptr<Env> own_env_;
  Env& env_;
  Database database_;
  DiskReserve reserve_;
  std::optional<SqliteOperations> operations_;
  std::optional<Error> broken_;
  int log_pages_ = 0, folded_pages_ = 0;  // in the write-ahead log; those checkpointed of them
  int peak_pages_ = 0;  // most pages of the log since it was truncated: the size of its file
  Steady::time_point last_commit_{};
};

Status SqliteLedger::open(const DurabilitySettings& settings) {
  if (!options_.publish) return fail(Code::internal, "the ledger was opened without publish");
  MILLRACE_TRY(database_.open(path_, options_.vfs));
  MILLRACE_TRY(ledger_version_of(database_));
  MILLRACE_TRY(settle_settings(database_, settings));
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto now_us = std::chrono::duration_cast<std::chrono::microseconds>(now).count();
  MILLRACE_TRY(migrate(database_, {now_us, options_.read_columns}));
  operations_.emplace(database_, options_.publish, options_.max_queued_jobs);
  operations_->records().load();
  MILLRACE_TRY(database_.status());
  if (operations_->records().epoch().empty()) {
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

Result<SqliteLedger::Replies> SqliteLedger::apply(std::span<const Operation> operations,
                                                  std::int64_t now_us) {
  if (broken_) return fail(*broken_);
  Refusals refusals;
  std::uint64_t new_bytes = 0;
  for (const Operation& op : operations) new_bytes += work_bytes(op);
  if (std::any_of(operations.begin(), operations.end(), brings_work)) {
    if (const Status room = reserve_.room_for(new_bytes); !room) refusals.work = room.error();
    if (refusals.work && refusals.work->code != Code::disk_full) {
      broken_ = refusals.work;
      return fail(*broken_);
    }
  }
  auto replies = attempt(operations, now_us, refusals);
  if (!replies && replies.error().code == Code::disk_full) {
    // The disk filled up during the commit. Without the new work, and with the space of the
    // ballast, the results still commit.
    refusals.work = replies.error();
    const auto released = reserve_.release();
    if (!released) replies = fail(released.error());
    if (released) replies = attempt(operations, now_us, refusals);
  }
  if (!replies && replies.error().code == Code::disk_full) {
    refusals.writes = replies.error();
    replies = attempt(operations, now_us, refusals);
  }
  if (!replies) broken_ = replies.error();
  return replies;
}

Result<SqliteLedger::Replies> SqliteLedger::attempt(std::span<const Operation> operations,
                                                    std::int64_t now_us, const Refusals& refusals) {
  const bool writes =
      !refusals.writes && !std::all_of(operations.begin(), operations.end(), only_reads);
  if (const Status begun = database_.execute(writes ? "BEGIN IMMEDIATE" : "BEGIN"); !begun) {
    return fail(begun.error());
  }
  Replies replies;
  replies.reserve(operations.size());
  for (const Operation& op : operations) {
    if (refusals.writes && !only_reads(op)) {
      replies.push_back(refused(op, *refusals.writes));
    } else if (refusals.work && brings_work(op)) {
      replies.push_back(refused(op, *refusals.work));
    } else {
      replies.push_back(operations_->carry_out(op, now_us));
    }
    if (database_.failed()) break;
  }
  if (const Status committed = commit(writes); !committed) {
    roll_back();
    return fail(committed.error());
  }
  return replies;
}

// A job that is stored already gets its answer even on a full disk.
Result<Reply> SqliteLedger::refused(const Operation& op, const Error& error) {
  if (const auto* submit = std::get_if<SubmitJob>(&op)) {
    if (auto known = operations_->answer_known(*submit)) return *std::move(known);
  }
  return fail(error);
}

Status SqliteLedger::commit(bool writes) {
  operations_->records().flush();
  database_.reset_statements();
  MILLRACE_TRY(database_.status());
  MILLRACE_TRY(database_.execute("COMMIT"));
  if (writes) last_commit_ = Steady::now();
  return {};
}

void SqliteLedger::roll_back() {
  database_.forget_failure();
  database_.reset_statements();
  // After some errors SQLite has rolled the transaction back itself.
  if (database_.in_transaction()) {
    if (const Status undone = database_.execute("ROLLBACK"); !undone) broken_ = undone.error();
  }
  operations_->records().load();
}

Status SqliteLedger::checkpoint(int mode) {
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

Status SqliteLedger::idle() {
  if (broken_) return fail(*broken_);
  const bool resting = Steady::now() - last_commit_ >= quiet;
  if (resting) MILLRACE_TRY(reserve_.keep());
  peak_pages_ = std::max(peak_pages_, log_pages_);
  // A commit after a complete checkpoint starts the log again from its beginning.
  if (log_pages_ < folded_pages_) folded_pages_ = 0;
  const int waiting = log_pages_ - folded_pages_;
  if (waiting < static_cast<int>(options_.checkpoint_pages) && !(resting && waiting > 0)) return {};
  const bool cut = static_cast<std::uint64_t>(peak_pages_) * page_bytes > options_.wal_bytes;
  const Status done = checkpoint(cut ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE);
  if (cut) peak_pages_ = 0;
  if (!done) broken_ = done.error();
  return done;
}

}  // namespace

Result<std::unique_ptr<Ledger>> open_weakened_sqlite_ledger(const std::string& path,
                                                            SqliteLedgerOptions options,
                                                            const DurabilitySettings& settings) {
  auto ledger = std::make_unique<SqliteLedger>(path, std::move(options));
  MILLRACE_TRY(ledger->open(settings));
  return ledger;
}

Result<std::unique_ptr<Ledger>> open_sqlite_ledger(const std::string& path,
                                                   SqliteLedgerOptions options) {
  return open_weakened_sqlite_ledger(path, std::move(options), DurabilitySettings{});
}

}  // namespace millrace::broker
