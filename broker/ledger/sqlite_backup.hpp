#pragma once
// Copies a ledger's file while its broker works, in short steps, with SQLite's backup interface on
// the connection that writes the ledger: what it changes meanwhile is copied too. The copy is made
// in a folder that begins with `.` and gets its name when it is whole and synced.
// Thread safety: one thread at a time, that of the ledger.
#include <memory>
#include <string>

#include "broker/ledger/backup_operations.hpp"
#include "broker/ledger/sqlite_database.hpp"
#include "schemas/base/env.hpp"

namespace millrace::broker {

class SqliteBackup {
 public:
  // `folder` holds the backups, a folder for each. It is made when it is needed.
  SqliteBackup(Database& from, Env& env, std::string folder);
  ~SqliteBackup();

  Result<BackUpReply> step(const BackUp& op);

 private:
  struct Copy;
  Status begin(const std::string& name);
  Status finish();
  void drop();

  Database& from_;
  Env& env_;
  const std::string folder_;
  std::unique_ptr<Copy> copy_;  // under way
};

}  // namespace millrace::broker
