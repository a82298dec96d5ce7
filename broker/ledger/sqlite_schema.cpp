#include "broker/ledger/sqlite_schema.hpp"

#include <array>
#include <cstdlib>
#include <utility>

#include "broker/ledger/ledger_copy.hpp"
#include "broker/ledger/sqlite_version_1.hpp"
#include "schemas/base/hash.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {
namespace {

std::string settings_sql(const DurabilitySettings& settings) {
  return "PRAGMA mmap_size=0;"
         "PRAGMA auto_vacuum=INCREMENTAL;"  // counts for a new file, before its first page
         "PRAGMA journal_mode=WAL;"
         "PRAGMA synchronous=" +
         settings.synchronous +
         ";"
         "PRAGMA wal_autocheckpoint=0;"
         "PRAGMA cell_size_check=ON;"
         "PRAGMA trusted_schema=OFF;"
         "PRAGMA secure_delete=FAST;"
         "PRAGMA temp_store=MEMORY;"
         "PRAGMA cache_size=-32768;";
}

std::string synchronous_number(const std::string& name) {
  if (name == "FULL") return "2";
  return name == "NORMAL" ? "1" : "0";
}

Status create_version_1(Database& database, const MigrationInput& with) {
  MILLRACE_TRY(database.execute(version_1));
  const std::string meta = "INSERT INTO meta VALUES ('epoch', '" + random_id() +
                           "'), ('created_us', '" + std::to_string(with.now_us) +
                           "'); PRAGMA application_id=" + std::to_string(ledger_application);
  return database.execute(meta.c_str());
}

// Version 2 adds the KV policy that a job wants. It rebuilds the queue, because the policy is part
// of its key, the order of hand-out.
constexpr const char* version_2_jobs = "ALTER TABLE jobs ADD COLUMN kv TEXT NOT NULL DEFAULT ''";
constexpr const char* version_2_queue = R"sql(
ALTER TABLE queue RENAME TO queue_1;
CREATE TABLE queue (
  tenant TEXT NOT NULL,
  suspect INTEGER NOT NULL,
  model TEXT NOT NULL,
  kv TEXT NOT NULL,
  priority INTEGER NOT NULL,
  sequence INTEGER NOT NULL,
  job TEXT NOT NULL,
  deadline_us INTEGER,
  PRIMARY KEY (tenant, suspect, model, kv, priority, sequence)
) STRICT, WITHOUT ROWID;
INSERT INTO queue
  SELECT q.tenant, q.suspect, q.model, ifnull(j.kv, ''), q.priority, q.sequence, q.job,
    q.deadline_us
  FROM queue_1 q LEFT JOIN jobs j ON j.tenant = q.tenant AND j.job = q.job;
DROP TABLE queue_1;
)sql";

// Fills a column of the jobs that still have a body: those that can be handed out, now or after a
// retry. Skips damaged bodies; their hand-out reports them.
template <class Update>
Status fill_column(Database& database, const ReadColumns& read_columns, Update update) {
  Statement jobs(database, "SELECT tenant, job, sequence FROM jobs WHERE state IN (0, 1, 3)");
  Statement body(database,
                 "SELECT checksum, body FROM job_bodies WHERE tenant = ?1 AND sequence = ?2");
  for (bool row = jobs.run(); row; row = jobs.next()) {
    const std::string tenant = jobs.text(0), job = jobs.text(1);
    const std::int64_t sequence = jobs.integer(2);
    if (!body.run(tenant, sequence)) continue;
    const std::string_view bytes = body.bytes(1);
    const auto sum = static_cast<std::int64_t>(hash64(bytes, static_cast<std::uint64_t>(sequence)));
    if (sum != body.integer(0)) continue;
    if (!read_columns) {
      return fail(Code::internal, "a ledger of an earlier version was opened without read_columns");
    }
    update(tenant, job, read_columns(Body(bytes)));  // keeps the key, so that the walk goes on
  }
  return database.status();
}

Status create_version_2(Database& database, const MigrationInput& with) {
  MILLRACE_TRY(database.execute(version_2_jobs));
  Statement update(database, "UPDATE jobs SET kv = ?3 WHERE tenant = ?1 AND job = ?2");
  const auto set_kv = [&](const std::string& tenant, const std::string& job,
                          const JobColumns& columns) {
    if (!columns.kv.empty()) update.run(tenant, job, columns.kv);
  };
  MILLRACE_TRY(fill_column(database, with.read_columns, set_kv));
  return database.execute(version_2_queue);
}

// Version 3 adds what the published result repeats of a job, so that no end needs the job's body.
Status create_version_3(Database& database, const MigrationInput& with) {
  MILLRACE_TRY(database.execute("ALTER TABLE jobs ADD COLUMN labels BLOB NOT NULL DEFAULT x''"));
  Statement update(database, "UPDATE jobs SET labels = ?3 WHERE tenant = ?1 AND job = ?2");
  const auto set_labels = [&](const std::string& tenant, const std::string& job,
                              const JobColumns& columns) {
    if (!columns.labels.empty()) update.run(tenant, job, Blob{columns.labels});
  };
  return fill_column(database, with.read_columns, set_labels);
}

// Version 4 adds what retention goes by. Of what was written before, the age counts from now.
Status create_version_4(Database& database, const MigrationInput& with) {
  const std::string now = std::to_string(with.now_us);
  const std::string sql =
      "ALTER TABLE jobs ADD COLUMN ended_us INTEGER;"
      "UPDATE jobs SET ended_us = " +
      now +
      " WHERE state >= 2;"
      "CREATE INDEX jobs_by_end ON jobs (ended_us) WHERE ended_us IS NOT NULL;"
      "ALTER TABLE entries ADD COLUMN written_us INTEGER NOT NULL DEFAULT " +
      now +
      ";"
      "ALTER TABLE cursors ADD COLUMN moved_us INTEGER NOT NULL DEFAULT " +
      now +
      ";"
      "ALTER TABLE streams ADD COLUMN oldest INTEGER NOT NULL DEFAULT 1;"
      "ALTER TABLE streams ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE streams ADD COLUMN age_us INTEGER;"
      "ALTER TABLE streams ADD COLUMN max_bytes INTEGER;"
      "ALTER TABLE streams ADD COLUMN cursor_age_us INTEGER;"
      "UPDATE streams AS s SET oldest = first, bytes = (SELECT ifnull(sum(length(body)), 0) "
      "FROM entries e WHERE e.tenant = s.tenant AND e.stream = s.stream);";
  return database.execute(sql.c_str());
}

// Version 5 tells how many jobs are suspected together, and for which deaths. A suspect of an
// earlier version runs alone, as it would have there. In the queue `suspect` is that number from
// now on.
Status create_version_5(Database& database, const MigrationInput&) {
  return database.execute(
      "ALTER TABLE jobs ADD COLUMN incident INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE jobs ADD COLUMN among INTEGER NOT NULL DEFAULT 0;"
      "UPDATE jobs SET among = 1 WHERE suspect_us IS NOT NULL;"
      "CREATE INDEX jobs_of_incident ON jobs (incident, sequence) WHERE incident <> 0;");
}

// Version 6 adds what a job takes of an engine.
Status create_version_6(Database& database, const MigrationInput& with) {
  MILLRACE_TRY(
      database.execute("ALTER TABLE jobs ADD COLUMN cost_tokens INTEGER NOT NULL DEFAULT 1"));
  Statement update(database, "UPDATE jobs SET cost_tokens = ?3 WHERE tenant = ?1 AND job = ?2");
  const auto set_cost = [&](const std::string& tenant, const std::string& job,
                            const JobColumns& columns) {
    update.run(tenant, job, columns.cost_tokens);
  };
  return fill_column(database, with.read_columns, set_cost);
}

// Version 7 tells when a job starts that waits for a time, and why it failed or runs again. Of jobs
// that have failed before, the entry in the stream alone says why.
Status create_version_7(Database& database, const MigrationInput&) {
  return database.execute(
      "ALTER TABLE jobs ADD COLUMN start_us INTEGER;"
      "ALTER TABLE jobs ADD COLUMN error_code TEXT NOT NULL DEFAULT '';"
      "ALTER TABLE jobs ADD COLUMN error_message TEXT NOT NULL DEFAULT '';"
      "ALTER TABLE jobs ADD COLUMN error_hint TEXT NOT NULL DEFAULT '';"
      "CREATE INDEX jobs_by_start ON jobs (tenant, start_us, sequence) WHERE start_us IS NOT NULL;"
      "CREATE INDEX jobs_failed ON jobs (tenant, job) WHERE state = 3;");
}

// Version 8 makes a batch an object. Batches from before are open.
Status create_version_8(Database& database, const MigrationInput&) {
  return database.execute(
      "CREATE TABLE batches (tenant TEXT NOT NULL, batch TEXT NOT NULL, created_us INTEGER NOT "
      "NULL,"
      " closed INTEGER NOT NULL, finished_us INTEGER, number INTEGER NOT NULL,"
      " metadata BLOB NOT NULL, PRIMARY KEY (tenant, batch)) STRICT, WITHOUT ROWID;"
      "INSERT INTO batches SELECT tenant, batch, min(submitted_us), 0, NULL, 0, x'' FROM jobs "
      "WHERE batch <> '' GROUP BY tenant, batch;");
}

// Version 9 keeps what is paused. Nothing was before.
Status create_version_9(Database& database, const MigrationInput&) {
  return database.execute(
      "ALTER TABLE batches ADD COLUMN paused INTEGER NOT NULL DEFAULT 0;"
      "CREATE TABLE pauses (tenant TEXT NOT NULL, model TEXT NOT NULL,"
      " PRIMARY KEY (tenant, model)) STRICT, WITHOUT ROWID;"
      "CREATE INDEX jobs_set_aside ON jobs (tenant, batch, sequence) WHERE "
      "start_us = " MILLRACE_UNTIL_RESUMED ";");
}

// Version 10 names what a prompt begins with. Jobs from before have no number: they are handed out
// in the order of their queue.
Status create_version_10(Database& database, const MigrationInput&) {
  return database.execute(
      "ALTER TABLE jobs ADD COLUMN prefix INTEGER NOT NULL DEFAULT 0;"
      "ALTER TABLE queue ADD COLUMN prefix INTEGER NOT NULL DEFAULT 0;");
}

// Version 11 counts the ready jobs: those that a claim could hand out. The tenant's sums leave out
// the jobs of paused batches.
Status create_version_11(Database& database, const MigrationInput&) {
  return database.execute(
      "CREATE TABLE ready_counts (tenant TEXT NOT NULL, batch TEXT NOT NULL, model TEXT NOT NULL,"
      " kv TEXT NOT NULL, jobs INTEGER NOT NULL, PRIMARY KEY (tenant, batch, model, kv))"
      " STRICT, WITHOUT ROWID;"
      "INSERT INTO ready_counts SELECT q.tenant, j.batch, q.model, q.kv, count(*) FROM queue q "
      "JOIN jobs j ON j.tenant = q.tenant AND j.job = q.job WHERE q.suspect = 0 AND "
      "j.batch <> '' GROUP BY 1, 2, 3, 4;"
      "INSERT INTO ready_counts SELECT q.tenant, '', q.model, q.kv, count(*) FROM queue q "
      "JOIN jobs j ON j.tenant = q.tenant AND j.job = q.job LEFT JOIN batches b ON "
      "b.tenant = j.tenant AND b.batch = j.batch WHERE q.suspect = 0 AND ifnull(b.paused, 0) = 0 "
      "GROUP BY 1, 2, 3, 4;");
}

// Version 12 tells where the results of a batch begin. Of batches from before nothing is known.
Status create_version_12(Database& database, const MigrationInput&) {
  return database.execute(
      "ALTER TABLE batches ADD COLUMN stream TEXT NOT NULL DEFAULT '';"
      "ALTER TABLE batches ADD COLUMN first INTEGER NOT NULL DEFAULT 0;");
}

// The settings that a result repeats have another form since this version. A reader would show the
// defaults in place of the settings that an earlier result holds.
constexpr int readable_results = 3;

Status check_results(Database& database, int found) {
  if (found == 0 || found >= readable_results) return {};
  Statement count(database, "SELECT count(*) FROM entries");
  const std::int64_t results = count.run() ? count.integer(0) : 0;
  MILLRACE_TRY(database.status());
  if (results == 0) return {};
  return fail(Code::ledger_older,
              "ledger " + database.path() + " has version " + std::to_string(found) +
                  " and holds results (" + std::to_string(results) +
                  "); this program reads results of versions from " +
                  std::to_string(readable_results) + " on",
              "read its results with the Millrace that wrote it, and begin with a new folder");
}

using Migration = Status (*)(Database&, const MigrationInput&);
constexpr auto migrations = std::to_array<Migration>(
    {create_version_1, create_version_2, create_version_3, create_version_4, create_version_5,
     create_version_6, create_version_7, create_version_8, create_version_9, create_version_10,
     create_version_11, create_version_12});
static_assert(migrations.size() == ledger_version);

Status check_owner(Database& database, const std::string& version) {
  MILLRACE_ASSIGN(const std::string application, database.pragma("application_id"));
  if (application == std::to_string(ledger_application)) return {};
  MILLRACE_ASSIGN(const std::string changes, database.pragma("schema_version"));
  if (application == "0" && version == "0" && changes == "0") return {};  // new
  return fail(Code::ledger_corrupt,
              "ledger " + database.path() + ": this is the file of another program",
              "choose another path for the ledger");
}

}  // namespace

Result<int> ledger_version_of(Database& database) {
  MILLRACE_ASSIGN(const std::string text, database.pragma("user_version"));
  MILLRACE_TRY(check_owner(database, text));
  const int found = static_cast<int>(std::strtol(text.c_str(), nullptr, 10));
  if (found < 0) return fail(incomplete_copy("ledger " + database.path()));
  if (found <= ledger_version) return found;
  return fail(Code::ledger_newer,
              "ledger " + database.path() + " has version " + text +
                  ", this program knows versions up to " + std::to_string(ledger_version),
              "use the newer Millrace that wrote it, or another ledger");
}

Status check_settings(Database& database, const DurabilitySettings& settings) {
  const auto required = std::to_array<std::pair<const char*, std::string>>({
      {"journal_mode", "wal"},
      {"synchronous", synchronous_number(settings.synchronous)},
      {"wal_autocheckpoint", "0"},
  });
  for (const auto& [name, wanted] : required) {
    MILLRACE_ASSIGN(const std::string is, database.pragma(name));
    if (is == wanted) continue;
    return fail(
        Code::ledger_settings,
        "ledger " + database.path() + ": " + name + " is '" + is + "' and must be '" + wanted + "'",
        "put the ledger on a local file system with working locks and write-ahead logs");
  }
  // An SQLite without memory mapping gives no answer, which is as good.
  MILLRACE_ASSIGN(const std::string mapped, database.pragma("mmap_size"));
  if (mapped.empty() || mapped == "0") return {};
  return fail(Code::ledger_settings,
              "ledger " + database.path() + ": mmap_size is " + mapped + " and must be 0",
              "use an SQLite whose memory mapping can be turned off");
}

Status settle_settings(Database& database, const DurabilitySettings& settings) {
  MILLRACE_TRY(database.execute(settings_sql(settings).c_str()));
  // Takes the file's lock, which the connection keeps to its end.
  MILLRACE_TRY(database.execute("BEGIN EXCLUSIVE; COMMIT;"));
  return check_settings(database, settings);
}

Status migrate(Database& database, const MigrationInput& with) {
  MILLRACE_ASSIGN(const int found, ledger_version_of(database));
  MILLRACE_TRY(check_results(database, found));
  for (int version = found; version < ledger_version; ++version) {
    MILLRACE_TRY(database.execute("BEGIN IMMEDIATE"));
    Status status = migrations[static_cast<std::size_t>(version)](database, with);
    const std::string mark = "PRAGMA user_version=" + std::to_string(version + 1);
    if (status) status = database.execute(mark.c_str());
    if (status) status = database.execute("COMMIT");
    if (!status) {
      if (database.in_transaction()) (void)database.execute("ROLLBACK");
      return status;
    }
  }
  return {};
}

Status allow_shrinking(Database& database) {
  constexpr const char* incremental = "2";
  MILLRACE_ASSIGN(const std::string is, database.pragma("auto_vacuum"));
  if (is == incremental) return {};
  log_info("the ledger's file is rewritten once, so that it can shrink",
           {{"file", database.path()}});
  // The copy is as large as the ledger, so it must not be in memory.
  MILLRACE_TRY(database.execute("PRAGMA temp_store=FILE; PRAGMA auto_vacuum=INCREMENTAL"));
  const Status done = database.execute("VACUUM");
  MILLRACE_TRY(database.execute("PRAGMA temp_store=MEMORY"));
  if (done || done.error().code != Code::disk_full) return done;
  log_warn("the ledger's file cannot shrink: there is no room to rewrite it",
           {{"file", database.path()},
            {"hint",
             "free as much space as the file has, there and in the folder for temporary "
             "files, and start again"}});
  return {};
}

}  // namespace millrace::broker
