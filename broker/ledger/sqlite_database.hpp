#pragma once
// A thin wrapper of one SQLite connection and its prepared statements.
//
// Errors are sticky: after the first failure every statement returns no row and changes nothing,
// and `status()` returns the error. A failed group commit is rolled back as a whole, so operations
// need no error handling of their own: the caller checks once, before the commit.
// Error codes: disk_full, ledger_in_use, ledger_corrupt, else io_error.
// Thread safety: one thread at a time.
#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"

struct sqlite3;
struct sqlite3_stmt;

namespace millrace::broker {

inline constexpr std::uint64_t page_bytes = 4096;  // SQLite's default, which the ledger keeps

class Database {
 public:
  Database() = default;
  ~Database();
  Database(const Database&) = delete;
  Database& operator=(const Database&) = delete;

  // `vfs`: name of an SQLite VFS. Empty: the one that keeps the file's lock and the index of its
  // log in this process, so that no other process can open the file as long as a connection is
  // open.
  Status open(const std::string& path, const std::string& vfs);
  Status execute(const char* sql);                      // ignores rows; its errors are not sticky
  Result<std::string> pragma(const std::string& name);  // the pragma's value as text

  // Call this before a COMMIT or ROLLBACK: no statement may be half read then.
  void reset_statements();
  bool in_transaction() const;

  const Status& status() const { return status_; }
  bool failed() const { return !status_.has_value(); }
  void forget_failure() { status_ = {}; }
  void note_failure(const char* doing);  // records the error of the last SQLite call
  void note_failure(Error error);
  Error error(const char* doing) const;  // returns the same error without recording it

  sqlite3* handle() const { return handle_; }
  const std::string& path() const { return path_; }

 private:
  sqlite3* handle_ = nullptr;
  std::string path_;
  Status status_;
};

struct Blob {
  std::string_view bytes;
};

class Statement {
 public:
  Statement(Database& database, const char* sql);  // an error becomes the database's status
  ~Statement();
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Starts again with these values for ?1, ?2, ... and makes the first step. True: there is a row.
  // Strings must live until the statement has been read to its end or is started again.
  template <class... Values>
  bool run(const Values&... values) {
    if (!begin()) return false;
    int place = 0;
    (bind(++place, values), ...);
    return next();
  }
  bool next();
  int changes() const;  // number of rows that the last run changed

  bool null(int column) const;
  std::int64_t integer(int column) const;
  std::optional<std::int64_t> optional_integer(int column) const;  // none: null
  std::string text(int column) const;                              // of a text or a blob
  std::string_view bytes(int column) const;                        // valid until the next step

 private:
  bool begin();
  void bind(int place, std::int64_t value);
  void bind(int place, std::string_view value);
  void bind(int place, Blob value);
  void bind(int place, std::optional<std::int64_t> value);
  template <std::integral Value>
  void bind(int place, Value value) {
    bind(place, static_cast<std::int64_t>(value));
  }

  Database& database_;
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace millrace::broker
