#include "broker/ledger/sqlite_database.hpp"

#include <sqlite3.h>

#include "schemas/base/limits.hpp"

namespace millrace::broker {
namespace {

Code code_of(int rc) {
  switch (rc & 0xff) {
    case SQLITE_FULL:
      return Code::disk_full;
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return Code::ledger_in_use;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
      return Code::ledger_corrupt;
    default:
      return Code::io_error;
  }
}

const char* hint_of(Code code) {
  switch (code) {
    case Code::disk_full:
      return "free space on the ledger's disk";
    case Code::ledger_in_use:
      return "stop the other process, or use another ledger";
    case Code::ledger_corrupt:
      return "keep the files as they are and restore the ledger from a backup";
    default:
      return "look at the disk and the permissions of the ledger's folder, then start again";
  }
}

constexpr const char* exclusive_vfs = "unix-excl";

// SQLite counts its memory under a lock that every allocation takes. Nobody reads these counts.
void stop_counting_memory() {
  static const int rc = sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
  static_cast<void>(rc);  // refused where SQLite already runs in this process: then it counts on
}

}  // namespace

Database::~Database() {
  if (handle_ != nullptr) sqlite3_close(handle_);
}

Status Database::open(const std::string& path, const std::string& vfs) {
  path_ = path;
  stop_counting_memory();
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX;
  const int rc =
      sqlite3_open_v2(path.c_str(), &handle_, flags, vfs.empty() ? exclusive_vfs : vfs.c_str());
  if (rc == SQLITE_OK) {
    sqlite3_extended_result_codes(handle_, 1);
    return {};
  }
  if (handle_ == nullptr) {
    return fail(Code::out_of_memory, "there is no memory to open the ledger " + path);
  }
  return fail(error("opening"));
}

Error Database::error(const char* doing) const {
  const int rc = sqlite3_extended_errcode(handle_);
  const Code code = code_of(rc);
  std::string message = "ledger " + path_ + ": ";
  if (code == Code::ledger_in_use) {
    message += "another process has it open: a broker, or a tool such as sqlite3";
  } else {
    // A full disk has nothing to do with what was done, which at the start are many statements.
    if (code != Code::disk_full) message += std::string(doing) + ": ";
    message += sqlite3_errmsg(handle_) + (" (SQLite code " + std::to_string(rc) + ")");
  }
  Error error{code, std::move(message), hint_of(code)};
  if (code == Code::disk_full) error.retry_ms = limits::retry_room_ms;
  return error;
}

void Database::note_failure(const char* doing) {
  if (status_) status_ = fail(error(doing));
}

Status Database::execute(const char* sql) {
  if (sqlite3_exec(handle_, sql, nullptr, nullptr, nullptr) == SQLITE_OK) return {};
  return fail(error(sql));
}

Result<std::string> Database::pragma(const std::string& name) {
  const std::string sql = "PRAGMA " + name;
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(handle_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) {
    return fail(error(sql.c_str()));
  }
  const int rc = sqlite3_step(statement);
  std::string value;
  if (rc == SQLITE_ROW && sqlite3_column_text(statement, 0) != nullptr) {
    value = reinterpret_cast<const char*>(sqlite3_column_text(statement, 0));
  }
  const bool ok = rc == SQLITE_ROW || rc == SQLITE_DONE;
  if (!ok) {
    Error found = error(sql.c_str());
    sqlite3_finalize(statement);
    return fail(std::move(found));
  }
  sqlite3_finalize(statement);
  return value;
}

void Database::note_failure(Error error) {
  if (status_) status_ = fail(std::move(error));
}

void Database::reset_statements() {
  for (sqlite3_stmt* s = sqlite3_next_stmt(handle_, nullptr); s != nullptr;
       s = sqlite3_next_stmt(handle_, s)) {
    sqlite3_reset(s);
  }
}

bool Database::in_transaction() const {
  return sqlite3_get_autocommit(handle_) == 0;
}

Statement::Statement(Database& database, const char* sql) : database_(database) {
  if (database.failed()) return;
  const int rc = sqlite3_prepare_v3(database.handle(), sql, -1, SQLITE_PREPARE_PERSISTENT,
                                    &statement_, nullptr);
  if (rc != SQLITE_OK) database.note_failure(sql);
}

Statement::~Statement() {
  sqlite3_finalize(statement_);
}

bool Statement::begin() {
  if (database_.failed()) return false;
  sqlite3_reset(statement_);
  return true;
}

bool Statement::next() {
  if (database_.failed()) return false;
  const int rc = sqlite3_step(statement_);
  if (rc == SQLITE_ROW) return true;
  if (rc != SQLITE_DONE) database_.note_failure(sqlite3_sql(statement_));
  sqlite3_reset(statement_);
  return false;
}

int Statement::changes() const {
  return database_.failed() ? 0 : sqlite3_changes(database_.handle());
}

bool Statement::null(int column) const {
  return sqlite3_column_type(statement_, column) == SQLITE_NULL;
}
std::int64_t Statement::integer(int column) const {
  return sqlite3_column_int64(statement_, column);
}
std::optional<std::int64_t> Statement::optional_integer(int column) const {
  if (null(column)) return std::nullopt;
  return integer(column);
}
std::string_view Statement::bytes(int column) const {
  const void* data = sqlite3_column_blob(statement_, column);
  const int size = sqlite3_column_bytes(statement_, column);
  return {static_cast<const char*>(data), static_cast<std::size_t>(size)};
}
std::string Statement::text(int column) const {
  return std::string(bytes(column));
}

void Statement::bind(int place, std::int64_t value) {
  sqlite3_bind_int64(statement_, place, value);
}
void Statement::bind(int place, std::string_view value) {
  sqlite3_bind_text64(statement_, place, value.empty() ? "" : value.data(), value.size(),
                      SQLITE_STATIC, SQLITE_UTF8);
}
void Statement::bind(int place, Blob value) {
  sqlite3_bind_blob64(statement_, place, value.bytes.empty() ? "" : value.bytes.data(),
                      value.bytes.size(), SQLITE_STATIC);
}
void Statement::bind(int place, std::optional<std::int64_t> value) {
  if (value) {
    bind(place, *value);
  } else {
    sqlite3_bind_null(statement_, place);
  }
}

}  // namespace millrace::broker
