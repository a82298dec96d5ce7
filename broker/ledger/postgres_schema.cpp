#include "broker/ledger/postgres_schema.hpp"

#include <array>
#include <chrono>
#include <string_view>
#include <thread>
#include <utility>

#include "broker/ledger/ledger_copy.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::broker {
namespace {

// Texts are bytea: they hold any bytes, and are ordered by them. `SET bytea_output = 'escape'`
// shows them as text.
constexpr auto version_1 = std::to_array<const char*>({
    "CREATE TABLE @.meta (version bigint NOT NULL, epoch bytea NOT NULL, created_us bigint NOT "
    "NULL, owner bytea NOT NULL)",
    "CREATE SEQUENCE @.job_sequence",
    "CREATE SEQUENCE @.lease_sequence",
    // A row for each tenant: whoever changes what belongs to the tenant locks it first.
    "CREATE TABLE @.tenants (tenant bytea PRIMARY KEY)",
    // A row for each handle of a broker, with the number of its last batch that took place.
    "CREATE TABLE @.handles (handle bytea PRIMARY KEY, batch bigint NOT NULL, seen_us bigint NOT "
    "NULL) WITH (fillfactor = 50)",
    "CREATE TABLE @.jobs (tenant bytea NOT NULL, job bytea NOT NULL, hash bytea NOT NULL,"
    " hash_version bigint NOT NULL, custom_id bytea NOT NULL, model bytea NOT NULL,"
    " stream bytea NOT NULL, batch bytea NOT NULL, kv bytea NOT NULL, labels bytea NOT NULL,"
    " priority bigint NOT NULL, max_attempts bigint NOT NULL, cost_tokens bigint NOT NULL,"
    " prefix bigint NOT NULL, deadline_us bigint, sequence bigint NOT NULL,"
    " submitted_us bigint NOT NULL, state bigint NOT NULL, attempts bigint NOT NULL,"
    " failures bigint NOT NULL, suspect_us bigint, incident bigint NOT NULL,"
    " among bigint NOT NULL, cancel bigint NOT NULL, number bigint NOT NULL, lease bigint,"
    " ended_us bigint, start_us bigint, error_code bytea NOT NULL, error_message bytea NOT NULL,"
    " error_hint bytea NOT NULL, PRIMARY KEY (tenant, job)) WITH (fillfactor = 80)",
    "CREATE INDEX jobs_of_batch ON @.jobs (tenant, batch, state, sequence) WHERE batch <> ''",
    "CREATE INDEX jobs_of_incident ON @.jobs (incident, sequence) WHERE incident <> 0",
    "CREATE INDEX jobs_by_deadline ON @.jobs (tenant, deadline_us, sequence) "
    "WHERE deadline_us IS NOT NULL AND state < 2",
    "CREATE INDEX jobs_by_end ON @.jobs (ended_us, tenant, job) WHERE ended_us IS NOT NULL",
    "CREATE INDEX jobs_by_start ON @.jobs (tenant, start_us, sequence) WHERE start_us IS NOT NULL",
    "CREATE INDEX jobs_set_aside ON @.jobs (tenant, batch, sequence) "
    "WHERE start_us = 9223372036854775807",
    "CREATE INDEX jobs_failed ON @.jobs (tenant, job) WHERE state = 3",
    // Bodies are not compressed: that costs more than it saves, of msgpack and in a queue.
    "CREATE TABLE @.job_bodies (tenant bytea NOT NULL, sequence bigint NOT NULL,"
    " checksum bigint NOT NULL, body bytea STORAGE EXTERNAL NOT NULL,"
    " PRIMARY KEY (tenant, sequence))",
    // Rows come and go: dead ones at its front would slow every claim down.
    "CREATE TABLE @.queue (tenant bytea NOT NULL, suspect bigint NOT NULL, model bytea NOT NULL,"
    " kv bytea NOT NULL, priority bigint NOT NULL, sequence bigint NOT NULL, job bytea NOT NULL,"
    " deadline_us bigint, prefix bigint NOT NULL,"
    " PRIMARY KEY (tenant, suspect, model, kv, priority, sequence))"
    " WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)",
    "CREATE TABLE @.leases (lease bigint PRIMARY KEY, tenant bytea NOT NULL, job bytea NOT NULL,"
    " engine bytea NOT NULL, until_us bigint NOT NULL, alone bigint NOT NULL)"
    " WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)",
    "CREATE INDEX leases_of_engine ON @.leases (engine)",
    "CREATE INDEX leases_by_end ON @.leases (until_us)",
    "CREATE TABLE @.job_counts (tenant bytea NOT NULL, batch bytea NOT NULL, state bigint NOT "
    "NULL, jobs bigint NOT NULL, PRIMARY KEY (tenant, batch, state)) WITH (fillfactor = 50)",
    "CREATE TABLE @.ready_counts (tenant bytea NOT NULL, batch bytea NOT NULL, model bytea NOT "
    "NULL, kv bytea NOT NULL, jobs bigint NOT NULL, PRIMARY KEY (tenant, batch, model, kv))"
    " WITH (fillfactor = 50)",
    "CREATE TABLE @.batches (tenant bytea NOT NULL, batch bytea NOT NULL,"
    " created_us bigint NOT NULL, closed bigint NOT NULL, finished_us bigint,"
    " number bigint NOT NULL, metadata bytea NOT NULL, paused bigint NOT NULL,"
    " stream bytea NOT NULL, first bigint NOT NULL, PRIMARY KEY (tenant, batch))",
    "CREATE TABLE @.pauses (tenant bytea NOT NULL, model bytea NOT NULL,"
    " PRIMARY KEY (tenant, model))",
    "CREATE TABLE @.streams (tenant bytea NOT NULL, stream bytea NOT NULL, first bigint NOT NULL,"
    " high bigint NOT NULL, oldest bigint NOT NULL, bytes bigint NOT NULL, age_us bigint,"
    " max_bytes bigint, cursor_age_us bigint, PRIMARY KEY (tenant, stream))"
    " WITH (fillfactor = 50)",
    "CREATE TABLE @.entries (tenant bytea NOT NULL, stream bytea NOT NULL, number bigint NOT NULL,"
    " job bytea NOT NULL, checksum bigint NOT NULL, body bytea STORAGE EXTERNAL NOT NULL,"
    " written_us bigint NOT NULL, PRIMARY KEY (tenant, stream, number))",
    "CREATE TABLE @.cursors (tenant bytea NOT NULL, stream bytea NOT NULL, cursor bytea NOT NULL,"
    " number bigint NOT NULL, moved_us bigint NOT NULL, PRIMARY KEY (tenant, stream, cursor))",
});

// The column's own STORAGE clause came with version 16.
constexpr auto storage = std::to_array<const char*>({
    "ALTER TABLE @.job_bodies ALTER COLUMN body SET STORAGE EXTERNAL",
    "ALTER TABLE @.entries ALTER COLUMN body SET STORAGE EXTERNAL",
});

std::string without_storage(std::string_view statement) {
  constexpr std::string_view clause = " STORAGE EXTERNAL";
  std::string out(statement);
  if (const auto at = out.find(clause); at != std::string::npos) out.erase(at, clause.size());
  return out;
}

void create_version_1(PostgresConnection& connection) {
  for (const char* statement : version_1) connection.send(without_storage(statement));
  for (const char* statement : storage) connection.send(statement);
  connection.send(
      "INSERT INTO @.meta VALUES (0, $1, (extract(epoch FROM clock_timestamp()) * "
      "1000000)::bigint, '')",
      random_id());
}

// Several brokers serve the ledger. Those of version 1, of which one owned it, see the version and
// end; the column `owner` stays for them.
constexpr auto version_2 = std::to_array<const char*>({
    "CREATE TABLE @.brokers (broker bytea PRIMARY KEY, until_us bigint NOT NULL)"
    " WITH (fillfactor = 50)",
    "ALTER TABLE @.handles ADD COLUMN broker bytea NOT NULL DEFAULT ''",
    "ALTER TABLE @.leases ADD COLUMN broker bytea NOT NULL DEFAULT ''",
    // What a batch of a handle tells the other brokers. Rows come and go.
    "CREATE TABLE @.news (handle bytea NOT NULL, batch bigint NOT NULL, broker bytea NOT NULL,"
    " written_us bigint NOT NULL, kind bigint NOT NULL, tenant bytea NOT NULL, name bytea NOT NULL,"
    " number bigint NOT NULL)"
    " WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000)",
    "CREATE INDEX news_of_handle ON @.news (handle, batch)",
    "CREATE INDEX news_by_time ON @.news (broker, written_us)",
});

void migrate_to_version_2(PostgresConnection& connection) {
  for (const char* statement : version_2) connection.send(statement);
}

using Migration = void (*)(PostgresConnection&);
constexpr auto migrations = std::to_array<Migration>({create_version_1, migrate_to_version_2});
static_assert(migrations.size() == postgres_version);

bool is_true(const PostgresRows& rows) {
  return rows.size() == 1 && rows.bytes(0, 0) == std::string_view("\1", 1);
}

// The version of the tables; 0: there are none.
int version_of(PostgresConnection& connection) {
  const auto table = connection.ask("SELECT to_regclass('@.meta') IS NULL");
  if (!connection.status() || is_true(table)) return 0;
  const auto rows = connection.ask("SELECT version FROM @.meta");
  return rows.size() == 0 ? 0 : static_cast<int>(rows.integer(0, 0));
}

Status check_version(int version, const std::string& place) {
  if (version < 0) return fail(incomplete_copy(place));
  if (version <= postgres_version) return {};
  return fail(Code::ledger_newer,
              place + ": the ledger's tables have version " + std::to_string(version) +
                  ", this program knows versions up to " + std::to_string(postgres_version),
              "use the newer Millrace that wrote it, or another database");
}

// One try, in one transaction. The table `migrations` is the lock: it exists before all others.
void migrate_once(PostgresConnection& connection) {
  connection.send("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE");
  const auto missing = connection.ask("SELECT to_regnamespace(convert_from($1, 'UTF8')) IS NULL",
                                      connection.schema());
  if (is_true(missing)) connection.send("CREATE SCHEMA IF NOT EXISTS " + connection.schema());
  connection.send("CREATE TABLE IF NOT EXISTS @.migrations (version bigint NOT NULL)");
  connection.ask("LOCK TABLE @.migrations IN ACCESS EXCLUSIVE MODE");
  for (int version = version_of(connection); version < postgres_version; ++version) {
    if (!connection.status()) return;
    migrations[static_cast<std::size_t>(version)](connection);
    connection.send("UPDATE @.meta SET version = $1", version + 1);
    connection.send("INSERT INTO @.migrations VALUES ($1)", version + 1);
  }
  connection.ask("COMMIT");
}

}  // namespace

Status migrate_postgres(PostgresConnection& connection) {
  // Two that create the same schema at once do not wait for each other: one of them fails.
  constexpr int tries = 20;
  for (int left = tries;; --left) {
    const int found = version_of(connection);
    MILLRACE_TRY(connection.status());
    MILLRACE_TRY(check_version(found, connection.place()));
    if (found == postgres_version) return {};
    migrate_once(connection);
    const Status done = connection.status();
    if (!done) connection.recover();
    if (!connection.connected()) return done;
    const bool another =
        !done && (done.error().code == Code::ledger_unavailable ||
                  done.error().code == Code::ledger_corrupt || done.error().code == Code::internal);
    if (!done && (!another || left == 0)) return done;
    if (!done) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    if (done) {
      log_info("the ledger's tables were made",
               {{"version", std::to_string(postgres_version)}, {"place", connection.place()}});
    }
  }
}

// The planner must not read whole tables, or all rows of a tenant, because it has not counted them
// yet: every statement finds each of its rows by an index. And a transaction whose broker is gone
// must not keep its locks: the server ends it.
const char* const state_question =
    "SELECT version, epoch, EXISTS (SELECT FROM @.brokers b WHERE b.broker <> $2 AND b.until_us >"
    " (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)::int::bigint, "
    "convert_to(current_setting('fsync'), 'UTF8'),"
    " convert_to(current_setting('full_page_writes'), 'UTF8'),"
    " convert_to(current_setting('synchronous_commit'), 'UTF8'),"
    " set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true),"
    " set_config('enable_mergejoin', 'off', true), set_config('enable_material', 'off', true),"
    " set_config('enable_bitmapscan', 'off', true), set_config('jit', 'off', true),"
    " set_config('idle_in_transaction_session_timeout', convert_from($1, 'UTF8'), true) FROM "
    "@.meta";

PostgresState read_state(const PostgresRows& rows) {
  PostgresState out;
  if (rows.size() == 0) return out;
  out.version = static_cast<int>(rows.integer(0, 0));
  out.epoch = rows.text(0, 1);
  out.others_live = rows.integer(0, 2) != 0;
  out.fsync = rows.text(0, 3);
  out.full_page_writes = rows.text(0, 4);
  out.synchronous_commit = rows.text(0, 5);
  return out;
}

namespace {

Status check_settings(const PostgresState& state, const std::string& place) {
  const auto refuse = [&place](const char* name, const std::string& is, const char* wanted) {
    return fail(Code::ledger_settings,
                place + ": " + name + " is '" + is + "' and must be " + wanted +
                    ", or an acknowledged job may not be on the disk",
                "set it in the server's postgresql.conf, and for the broker's user and database");
  };
  if (state.fsync != "on") return refuse("fsync", state.fsync, "'on'");
  if (state.full_page_writes != "on") {
    return refuse("full_page_writes", state.full_page_writes, "'on'");
  }
  if (state.synchronous_commit == "off") {
    return refuse("synchronous_commit", state.synchronous_commit, "'on' or 'local'");
  }
  return {};
}

}  // namespace

Status check_state(const PostgresState& state, const std::string& place) {
  if (state.version == 0) {
    return fail(Code::ledger_corrupt, place + ": the ledger's table meta is empty",
                "restore the database from a backup");
  }
  MILLRACE_TRY(check_version(state.version, place));
  return check_settings(state, place);
}

Status check_settings(PostgresConnection& connection) {
  const auto rows = connection.ask(
      "SELECT convert_to(current_setting('fsync'), 'UTF8'),"
      " convert_to(current_setting('full_page_writes'), 'UTF8'),"
      " convert_to(current_setting('synchronous_commit'), 'UTF8')");
  MILLRACE_TRY(connection.status());
  PostgresState state;
  state.fsync = rows.text(0, 0);
  state.full_page_writes = rows.text(0, 1);
  state.synchronous_commit = rows.text(0, 2);
  return check_settings(state, connection.place());
}

}  // namespace millrace::broker
