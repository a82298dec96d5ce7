#pragma once
// Gives free pages of the ledger's file back to the disk, in short transactions of its own. SQLite
// moves the last pages of the file to free places and cuts the end off; the file gets shorter with
// the next checkpoint. Some free pages stay, because new rows need them again soon.
//
// Needs a file with auto_vacuum=INCREMENTAL; in others it finds nothing to do.
// Errors: those of the database. A full disk is none: the pages stay free.
// Thread safety: one thread at a time.
#include <cstdint>

#include "broker/ledger/sqlite_database.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::broker {

class SqliteSpace {
 public:
  // At least `spare_pages` stay free, and an eighth of the file.
  SqliteSpace(Database& database, std::uint32_t spare_pages, const Clock& clock);

  // Makes one step of about `budget_us`, where there are twice as many free pages as stay; it goes
  // on, call by call, until only those are left. Call it outside of transactions.
  Status give_back(std::int64_t budget_us);

 private:
  Status step(std::int64_t pages, std::int64_t budget_us);

  Database& database_;
  const Clock& clock_;
  const std::int64_t spare_pages_;
  Statement count_pages_, count_free_, vacuum_;
  bool giving_ = false;
};

}  // namespace millrace::broker
