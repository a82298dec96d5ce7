#include "broker/ledger/verify_ledger.hpp"

#include <sqlite3.h>

#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/sqlite_checksum.hpp"
#include "broker/ledger/sqlite_database.hpp"
#include "broker/ledger/sqlite_schema.hpp"
#include "broker/ledger/table_rules.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {
namespace {

// No broker hands out so many leases in the time that a backup may be old.
constexpr const char* leases_skipped = "4294967296";

std::unexpected<Error> damaged(const Database& database, const std::string& what) {
  return fail(Code::ledger_corrupt, "ledger " + database.path() + ": " + what,
              "keep the files as they are, and restore the ledger from a sound backup");
}

Status check_file(Database& database) {
  Statement check(database, "PRAGMA integrity_check(1)");
  if (check.run() && check.text(0) != "ok") return damaged(database, check.text(0));
  return database.status();
}

Status check_bodies(Database& database) {
  Statement bodies(database, "SELECT tenant, sequence, checksum, body FROM job_bodies");
  for (bool row = bodies.run(); row; row = bodies.next()) {
    if (sound_body(bodies, 2, static_cast<std::uint64_t>(bodies.integer(1)))) continue;
    return damaged(database, "the body of the job at place " + bodies.text(1) + " of tenant " +
                                 bodies.text(0) + " is damaged");
  }
  MILLRACE_TRY(database.status());
  Statement entries(database, "SELECT tenant, stream, number, checksum, body FROM entries");
  for (bool row = entries.run(); row; row = entries.next()) {
    if (sound_body(entries, 3, static_cast<std::uint64_t>(entries.integer(2)))) continue;
    return damaged(database, "result " + entries.text(2) + " of stream " + entries.text(1) +
                                 " of tenant " + entries.text(0) + " is damaged");
  }
  return database.status();
}

Status check_tables(Database& database) {
  MILLRACE_ASSIGN(const std::vector<std::string> broken, broken_table_rules(database));
  if (broken.empty()) return {};
  std::string what;
  for (const std::string& rule : broken) what += (what.empty() ? "" : "; ") + rule;
  return damaged(database, what);
}

Result<std::uint64_t> count(Database& database, const char* sql) {
  Statement statement(database, sql);
  const std::uint64_t rows = statement.run() ? static_cast<std::uint64_t>(statement.integer(0)) : 0;
  MILLRACE_TRY(database.status());
  return rows;
}

Status open_existing(Env& env, Database& database, const std::string& folder) {
  const std::string path = folder + "/" + ledger_file;
  MILLRACE_ASSIGN(const bool there, env.exists(path));
  if (!there) {
    return fail(Code::not_found, "there is no ledger in " + folder + ": " + path + " is absent",
                "name the folder of a ledger or of a backup");
  }
  return database.open(path, "");
}

// Copies a file in pieces; the copy is synced.
Status copy_file(Env& env, const std::string& from, const std::string& to) {
  MILLRACE_ASSIGN(const auto source, env.open(from, OpenMode::read));
  MILLRACE_ASSIGN(const auto target, env.open(to, OpenMode::create_new));
  std::string block(limits::MiB, '\0');
  while (true) {
    MILLRACE_ASSIGN(const std::uint64_t at, target->size());
    MILLRACE_ASSIGN(const std::size_t bytes, source->read_at(at, block));
    if (bytes == 0) return target->sync();
    MILLRACE_TRY(target->append(std::string_view(block).substr(0, bytes)));
  }
}

}  // namespace

std::string ledger_engine_version() {
  return std::string("SQLite ") + sqlite3_libversion();
}

Result<LedgerReport> verify_ledger(const std::string& folder) {
  const auto env = posix_env();
  Database database;
  MILLRACE_TRY(open_existing(*env, database, folder));
  LedgerReport report;
  MILLRACE_ASSIGN(report.version, ledger_version_of(database));
  MILLRACE_TRY(database.execute("PRAGMA query_only=ON; PRAGMA cache_size=-65536"));
  if (report.version == 0) return damaged(database, "the file holds no tables");
  MILLRACE_TRY(check_file(database));
  MILLRACE_TRY(check_bodies(database));
  // The tables of earlier versions are checked once a broker has migrated them.
  if (report.version == ledger_version) MILLRACE_TRY(check_tables(database));
  MILLRACE_ASSIGN(report.jobs, count(database, "SELECT count(*) FROM jobs"));
  MILLRACE_ASSIGN(report.results, count(database, "SELECT count(*) FROM entries"));
  MILLRACE_ASSIGN(report.streams, count(database, "SELECT count(*) FROM streams"));
  return report;
}

Result<LedgerReport> restore_ledger(const std::string& backup, const std::string& folder) {
  const auto env = posix_env();
  MILLRACE_TRY(verify_ledger(backup));
  MILLRACE_TRY(env->make_directories(folder));
  const std::string path = folder + "/" + ledger_file, draft = path + ".restoring";
  MILLRACE_ASSIGN(const bool there, env->exists(path));
  if (there) {
    return fail(Code::conflict, "there is a ledger in " + folder + " already",
                "name another folder, or move that ledger away first");
  }
  MILLRACE_ASSIGN(const bool rest, env->exists(draft));
  if (rest) MILLRACE_TRY(env->remove(draft));
  MILLRACE_TRY(copy_file(*env, backup + "/" + ledger_file, draft));
  {
    Database database;
    MILLRACE_TRY(database.open(draft, ""));
    const std::string changes =
        "PRAGMA synchronous=FULL; BEGIN IMMEDIATE; UPDATE meta SET value = '" + random_id() +
        "' WHERE name = 'epoch'; UPDATE counters SET value = value + " + leases_skipped +
        " WHERE name = 'next_lease'; COMMIT";
    MILLRACE_TRY(database.execute(changes.c_str()));
  }
  MILLRACE_TRY(env->rename(draft, path));
  return verify_ledger(folder);
}

}  // namespace millrace::broker
