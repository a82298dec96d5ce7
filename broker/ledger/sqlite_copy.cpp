#include "broker/ledger/sqlite_copy.hpp"

#include <sqlite3.h>

#include <charconv>
#include <utility>

#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/postgres_values.hpp"
#include "broker/ledger/sqlite_database.hpp"
#include "broker/ledger/sqlite_schema.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/env.hpp"

namespace millrace::broker {
namespace {

class SqliteReader final : public RowReader {
 public:
  SqliteReader(Database& database, const CopiedTable& table)
      : database_(database),
        table_(table),
        sql_("SELECT " + column_names(table) + " FROM " + table.name + " ORDER BY " +
             key_names(table)),
        rows_(database, sql_.c_str()) {}

  Result<bool> next(std::string& row) override {
    const bool there = begun_ ? rows_.next() : rows_.run();
    begun_ = true;
    MILLRACE_TRY(database_.status());
    if (!there) return false;
    begin_row(row, table_.columns.size());
    for (int i = 0; const CopiedColumn& column : table_.columns) {
      if (rows_.null(i)) {
        add_null(row);
      } else if (column.kind == ColumnKind::integer) {
        add_integer(row, rows_.integer(i));
      } else {
        add_bytes(row, rows_.bytes(i));
      }
      ++i;
    }
    return true;
  }

 private:
  Database& database_;
  const CopiedTable& table_;
  const std::string sql_;
  Statement rows_;
  bool begun_ = false;
};

// Inserts rows into one table.
class SqliteWriter {
 public:
  SqliteWriter(Database& database, const CopiedTable& table) : database_(database), table_(table) {
    std::string places;
    for (std::size_t i = 1; i <= table.columns.size(); ++i) {
      places.append(i == 1 ? "?" : ", ?").append(std::to_string(i));
    }
    const std::string sql = std::string("INSERT INTO ") + table.name + " (" + column_names(table) +
                            ") VALUES (" + places + ")";
    if (sqlite3_prepare_v2(database.handle(), sql.c_str(), -1, &insert_, nullptr) != SQLITE_OK) {
      database.note_failure(sql.c_str());
    }
  }
  ~SqliteWriter() { sqlite3_finalize(insert_); }
  SqliteWriter(const SqliteWriter&) = delete;
  SqliteWriter& operator=(const SqliteWriter&) = delete;

  Status add(std::string_view row) {
    MILLRACE_TRY(database_.status());
    MILLRACE_ASSIGN(const std::vector<RowField> fields, fields_of(table_, row));
    for (int place = 1; const RowField& field : fields) {
      bind(place, table_.columns[static_cast<std::size_t>(place - 1)].kind, field);
      ++place;
    }
    if (sqlite3_step(insert_) != SQLITE_DONE) database_.note_failure("copying a row");
    sqlite3_reset(insert_);
    return database_.status();
  }

 private:
  void bind(int place, ColumnKind kind, const RowField& field) {
    const char* const data = field.bytes.empty() ? "" : field.bytes.data();
    const std::size_t size = field.bytes.size();
    if (field.null) {
      sqlite3_bind_null(insert_, place);
    } else if (kind == ColumnKind::integer) {
      sqlite3_bind_int64(insert_, place, postgres_integer(field.bytes));
    } else if (kind == ColumnKind::text) {
      sqlite3_bind_text64(insert_, place, data, size, SQLITE_STATIC, SQLITE_UTF8);
    } else {
      sqlite3_bind_blob64(insert_, place, data, size, SQLITE_STATIC);
    }
  }

  Database& database_;
  const CopiedTable& table_;
  sqlite3_stmt* insert_ = nullptr;
};

Result<LedgerFacts> read_facts(Database& database) {
  LedgerFacts facts;
  Statement meta(database, "SELECT value FROM meta WHERE name = ?1");
  Statement counter(database, "SELECT value FROM counters WHERE name = ?1");
  if (meta.run("epoch")) facts.epoch = meta.text(0);
  if (meta.run("created_us")) {
    const std::string text = meta.text(0);
    std::from_chars(text.data(), text.data() + text.size(), facts.created_us);
  }
  if (counter.run("next_sequence")) {
    facts.next_sequence = static_cast<std::uint64_t>(counter.integer(0));
  }
  if (counter.run("next_lease")) facts.next_lease = static_cast<std::uint64_t>(counter.integer(0));
  MILLRACE_TRY(database.status());
  return facts;
}

Result<std::uint64_t> count_rows(Database& database, const char* table) {
  const std::string sql = std::string("SELECT count(*) FROM ") + table;
  Statement rows(database, sql.c_str());
  const std::uint64_t count = rows.run() ? static_cast<std::uint64_t>(rows.integer(0)) : 0;
  MILLRACE_TRY(database.status());
  return count;
}

// The lock goes after the connection, because closing a descriptor of the file would give up the
// lock that the connection has.
Result<std::unique_ptr<FileLock>> hold(Env& env, const std::string& path) {
  auto lock = env.lock(path);
  if (!lock && lock.error().code == Code::output_in_use) {
    return fail(Code::ledger_in_use,
                "ledger " + path + ": a broker serves it, or another copy has it open",
                "stop the broker first (millrace drain)");
  }
  return lock;
}

class SqliteSource final : public CopiedLedger {
 public:
  explicit SqliteSource(const std::string& folder) : path_(folder + "/" + ledger_file) {}

  Status open() {
    MILLRACE_ASSIGN(const bool there, env_->exists(path_));
    if (!there) {
      return fail(Code::not_found, "there is no ledger to copy: " + path_ + " is absent",
                  "name the folder of a ledger, or the database that holds one");
    }
    MILLRACE_ASSIGN(lock_, hold(*env_, path_));
    MILLRACE_TRY(database_.open(path_, ""));
    MILLRACE_ASSIGN(const int version, ledger_version_of(database_));
    if (version == 0) {
      return fail(Code::not_found, "there is no ledger to copy: " + path_ + " is empty",
                  "name the folder of a ledger, or the database that holds one");
    }
    if (version < ledger_version) {
      return fail(Code::ledger_older,
                  "ledger " + path_ + " has version " + std::to_string(version) +
                      ", and only version " + std::to_string(ledger_version) + " is copied",
                  "start the broker of this version on it once, and stop it again");
    }
    MILLRACE_TRY(database_.execute("PRAGMA query_only=ON; PRAGMA cache_size=-65536; BEGIN"));
    MILLRACE_ASSIGN(const LedgerFacts facts, read_facts(database_));  // begins the transaction
    if (!facts.epoch.empty()) return {};
    return fail(Code::ledger_corrupt, "ledger " + path_ + " has no epoch",
                "restore the ledger from a backup");
  }

  Result<LedgerFacts> facts() override { return read_facts(database_); }
  Result<std::uint64_t> count(const CopiedTable& table) override {
    return count_rows(database_, table.name);
  }
  Result<std::unique_ptr<RowReader>> read(const CopiedTable& table) override {
    return std::make_unique<SqliteReader>(database_, table);
  }

 private:
  const std::string path_;
  const std::unique_ptr<Env> env_ = posix_env();
  std::unique_ptr<FileLock> lock_;
  Database database_;
};

class SqliteTarget final : public CopyTarget {
 public:
  explicit SqliteTarget(const std::string& folder)
      : folder_(folder), path_(folder + "/" + ledger_file) {}

  Status open();

  Result<LedgerFacts> facts() override { return read_facts(database_); }
  Result<std::uint64_t> count(const CopiedTable& table) override {
    return count_rows(database_, table.name);
  }
  Result<std::unique_ptr<RowReader>> read(const CopiedTable& table) override {
    return std::make_unique<SqliteReader>(database_, table);
  }
  Status begin_table(const CopiedTable& table) override {
    MILLRACE_TRY(database_.execute("BEGIN"));
    writer_ = std::make_unique<SqliteWriter>(database_, table);
    return database_.status();
  }
  Status add(std::string_view row) override { return writer_->add(row); }
  Status end_table() override {
    writer_.reset();
    return database_.execute("COMMIT");
  }
  Status write_facts(const LedgerFacts& facts) override;
  Status complete() override;

 private:
  Status remove_rest();
  Status check_empty(std::span<const CopiedTable> tables);

  const std::string folder_, path_;
  const std::unique_ptr<Env> env_ = posix_env();
  std::unique_ptr<FileLock> lock_;
  std::unique_ptr<File> file_;  // to sync it
  Database database_;
  std::unique_ptr<SqliteWriter> writer_;
};

// A copy that was interrupted has left a file that may not even be sound.
Status SqliteTarget::remove_rest() {
  {
    MILLRACE_ASSIGN(const auto lock, hold(*env_, path_));
    Database rest;
    MILLRACE_TRY(rest.open(path_, ""));
    MILLRACE_ASSIGN(const std::string version, rest.pragma("user_version"));
    if (!version.starts_with('-')) return {};
    // The file goes last, because it tells that this is a rest.
    for (const char* const suffix : {"-wal", "-shm", "-journal", ""}) {
      MILLRACE_ASSIGN(const bool there, env_->exists(path_ + suffix));
      if (there) MILLRACE_TRY(env_->remove(path_ + suffix));
    }
  }
  return {};
}

Status SqliteTarget::check_empty(std::span<const CopiedTable> tables) {
  for (const CopiedTable& table : tables) {
    MILLRACE_ASSIGN(const std::uint64_t rows, count_rows(database_, table.name));
    if (rows > 0) {
      return not_empty("ledger " + path_, table, rows,
                       "name another folder, or move that ledger away first");
    }
  }
  return {};
}

Status SqliteTarget::open() {
  MILLRACE_TRY(env_->make_directories(folder_));
  MILLRACE_ASSIGN(const bool there, env_->exists(path_));
  if (there) MILLRACE_TRY(remove_rest());
  MILLRACE_ASSIGN(lock_, hold(*env_, path_));
  MILLRACE_ASSIGN(file_, env_->open(path_, OpenMode::write));
  MILLRACE_TRY(database_.open(path_, ""));
  MILLRACE_ASSIGN(const int version, ledger_version_of(database_));
  if (version > 0) MILLRACE_TRY(check_empty(first_filled_tables()));
  MILLRACE_TRY(settle_settings(database_));
  const SystemClock clock;
  MILLRACE_TRY(migrate(database_, {clock.wall_us(), {}}));
  MILLRACE_TRY(check_empty(copied_tables()));
  // This commit is synced, and the next statement ends the log.
  const std::string mark = "PRAGMA user_version=-" + std::to_string(ledger_version);
  MILLRACE_TRY(database_.execute(mark.c_str()));
  MILLRACE_TRY(database_.execute("PRAGMA journal_mode=DELETE"));
  MILLRACE_TRY(env_->sync_directory(folder_));
  return database_.execute(
      "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-65536");
}

Status SqliteTarget::write_facts(const LedgerFacts& facts) {
  Statement meta(database_, "INSERT OR REPLACE INTO meta (name, value) VALUES (?1, ?2)");
  Statement counter(database_, "INSERT OR REPLACE INTO counters (name, value) VALUES (?1, ?2)");
  meta.run("epoch", facts.epoch);
  meta.run("created_us", std::to_string(facts.created_us));
  counter.run("next_sequence", facts.next_sequence);
  counter.run("next_lease", facts.next_lease);
  return database_.status();
}

Status SqliteTarget::complete() {
  database_.reset_statements();
  MILLRACE_TRY(settle_settings(database_));
  MILLRACE_TRY(file_->sync());
  const std::string mark = "PRAGMA user_version=" + std::to_string(ledger_version);
  return database_.execute(mark.c_str());
}

}  // namespace

Result<std::unique_ptr<CopiedLedger>> open_sqlite_source(const std::string& folder) {
  auto source = std::make_unique<SqliteSource>(folder);
  MILLRACE_TRY(source->open());
  return source;
}

Result<std::unique_ptr<CopyTarget>> open_sqlite_target(const std::string& folder) {
  auto target = std::make_unique<SqliteTarget>(folder);
  MILLRACE_TRY(target->open());
  return target;
}

}  // namespace millrace::broker
