#include "broker/ledger/postgres_copy.hpp"

#include <cstdlib>
#include <utility>

#include "broker/ledger/postgres_bulk.hpp"
#include "broker/ledger/postgres_connection.hpp"
#include "broker/ledger/postgres_schema.hpp"
#include "schemas/base/hash.hpp"

namespace millrace::broker {
namespace {

std::string bytea(std::string_view bytes) {
  return "'\\x" + hex(bytes) + "'::bytea";
}

std::string all_tables() {
  std::string out;
  for (const CopiedTable& table : copied_tables()) out.append("@.").append(table.name).append(", ");
  return out + "@.handles, @.tenants, @.brokers, @.news";
}

Result<std::int64_t> ask_integer(PostgresBulk& bulk, std::string_view sql) {
  MILLRACE_ASSIGN(const auto rows, bulk.ask(sql));
  if (rows.size() != 1 || rows[0].empty()) {
    return fail(Code::ledger_corrupt, bulk.place() + ": the ledger's table meta is empty",
                "restore the database from a backup");
  }
  return std::strtoll(rows[0][0].c_str(), nullptr, 10);
}

// The version of the tables; 0: there are none.
Result<std::int64_t> version_of(PostgresBulk& bulk) {
  MILLRACE_ASSIGN(const auto there, bulk.ask("SELECT to_regclass('@.meta') IS NOT NULL"));
  if (there.size() != 1 || there[0][0] != "t") return 0;
  return ask_integer(bulk, "SELECT version FROM @.meta");
}

Result<LedgerFacts> read_facts(PostgresBulk& bulk) {
  MILLRACE_ASSIGN(
      const auto rows,
      bulk.ask(
          "SELECT encode(epoch, 'escape'), created_us, (SELECT last_value + is_called::int FROM "
          "@.job_sequence), (SELECT last_value + is_called::int FROM "
          "@.lease_sequence) FROM @.meta"));
  if (rows.size() != 1) {
    return fail(Code::ledger_corrupt, bulk.place() + ": the ledger's table meta is damaged",
                "restore the database from a backup");
  }
  return LedgerFacts{rows[0][0], std::strtoll(rows[0][1].c_str(), nullptr, 10),
                     std::strtoull(rows[0][2].c_str(), nullptr, 10),
                     std::strtoull(rows[0][3].c_str(), nullptr, 10)};
}

Status refuse_served(PostgresBulk& bulk) {
  MILLRACE_ASSIGN(const auto there, bulk.ask("SELECT to_regclass('@.brokers') IS NOT NULL"));
  if (there.size() != 1 || there[0][0] != "t") return {};  // tables of the first version
  MILLRACE_ASSIGN(const std::int64_t alive,
                  ask_integer(bulk,
                              "SELECT count(*) FROM @.brokers WHERE until_us > (extract(epoch FROM "
                              "clock_timestamp()) * 1000000)::bigint"));
  if (alive == 0) return {};
  return fail(Code::ledger_in_use,
              bulk.place() + ": " + (alive == 1 ? "a broker serves" : "brokers serve") +
                  " this ledger, or ended without a word not long ago",
              "stop every broker first (millrace drain); of one that was killed the heartbeat runs "
              "out within two lease times");
}

class PostgresReader final : public RowReader {
 public:
  explicit PostgresReader(PostgresBulk& bulk) : bulk_(bulk) {}
  ~PostgresReader() override { bulk_.end_copy_out(); }
  Result<bool> next(std::string& row) override { return bulk_.take_row(row); }

 private:
  PostgresBulk& bulk_;
};

Result<std::uint64_t> count_rows(PostgresBulk& bulk, const CopiedTable& table) {
  MILLRACE_ASSIGN(const std::int64_t rows,
                  ask_integer(bulk, std::string("SELECT count(*) FROM @.") + table.name));
  return static_cast<std::uint64_t>(rows);
}

class PostgresSource final : public CopiedLedger {
 public:
  PostgresSource(const std::string& url, const std::string& schema) : bulk_(url, schema) {}

  Status open() {
    MILLRACE_TRY(bulk_.connect());
    MILLRACE_TRY(check_postgres_version(bulk_, "copied"));
    MILLRACE_TRY(refuse_served(bulk_));
    // The snapshot is taken after the locks. A broker that came meanwhile waits for them.
    MILLRACE_TRY(bulk_.begin("REPEATABLE READ"));
    MILLRACE_TRY(bulk_.execute("LOCK TABLE " + all_tables() + ", @.meta IN SHARE MODE"));
    MILLRACE_TRY(refuse_served(bulk_));
    return check_postgres_version(bulk_, "copied");
  }

  Result<LedgerFacts> facts() override { return read_facts(bulk_); }
  Result<std::uint64_t> count(const CopiedTable& table) override {
    return count_rows(bulk_, table);
  }
  Result<std::unique_ptr<RowReader>> read(const CopiedTable& table) override {
    return read_postgres_table(bulk_, table);
  }

 private:
  PostgresBulk bulk_;
};

class PostgresTarget final : public CopyTarget {
 public:
  PostgresTarget(std::string url, std::string schema)
      : url_(std::move(url)),
        schema_(std::move(schema)),
        lock_(url_, schema_),
        bulk_(url_, schema_) {}

  Status open();

  Result<LedgerFacts> facts() override { return read_facts(bulk_); }
  Result<std::uint64_t> count(const CopiedTable& table) override {
    return count_rows(bulk_, table);
  }
  Result<std::unique_ptr<RowReader>> read(const CopiedTable& table) override {
    // The transaction of the reader before it changed nothing.
    MILLRACE_TRY(bulk_.execute("ROLLBACK"));
    MILLRACE_TRY(bulk_.begin("REPEATABLE READ READ ONLY"));
    return read_postgres_table(bulk_, table);
  }
  Status begin_table(const CopiedTable& table) override {
    MILLRACE_TRY(bulk_.begin("READ COMMITTED"));
    return bulk_.begin_copy_in(std::string("COPY @.") + table.name + " (" + column_names(table) +
                               ") FROM STDIN (FORMAT binary)");
  }
  Status add(std::string_view row) override { return bulk_.put_row(row); }
  Status end_table() override {
    MILLRACE_TRY(bulk_.end_copy_in());
    return bulk_.execute("COMMIT");
  }
  Status write_facts(const LedgerFacts& facts) override;
  Status complete() override;

 private:
  Status make_tables();
  Status hold();
  Status check_empty(std::span<const CopiedTable> tables);
  Status remove_rest();

  const std::string url_, schema_;
  PostgresBulk lock_;  // has the lock that keeps a second copy away
  PostgresBulk bulk_;
};

// Makes the tables where they are missing, and refuses a server whose settings a broker refuses.
Status PostgresTarget::make_tables() {
  PostgresConnection connection(url_, schema_);
  MILLRACE_TRY(connection.connect());
  MILLRACE_TRY(migrate_postgres(connection));
  connection.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
  const auto rows = connection.ask(state_question, "10000", "");
  const PostgresState state = read_state(rows);
  connection.ask("COMMIT");
  MILLRACE_TRY(connection.status());
  return check_state(state, connection.place());
}

Status PostgresTarget::hold() {
  MILLRACE_TRY(lock_.begin("READ COMMITTED"));
  const Status held = lock_.execute("LOCK TABLE @.migrations IN SHARE UPDATE EXCLUSIVE MODE");
  if (held || held.error().code != Code::ledger_unavailable) return held;
  return fail(Code::ledger_in_use, lock_.place() + ": another millrace migrate fills this ledger",
              "wait for it to end");
}

Status PostgresTarget::remove_rest() {
  MILLRACE_TRY(bulk_.begin("READ COMMITTED"));
  MILLRACE_TRY(bulk_.execute("TRUNCATE " + all_tables()));
  MILLRACE_TRY(bulk_.execute("UPDATE @.meta SET version = abs(version)"));
  return bulk_.execute("COMMIT");
}

Status PostgresTarget::check_empty(std::span<const CopiedTable> tables) {
  for (const CopiedTable& table : tables) {
    MILLRACE_ASSIGN(const std::uint64_t rows, count_rows(bulk_, table));
    if (rows > 0) {
      return not_empty(bulk_.place(), table, rows,
                       "name another database, or drop the schema of this ledger (millrace) if "
                       "nothing in it is needed");
    }
  }
  return {};
}

// A migration of the tables needs the lock itself, so it is taken anew after it.
Status PostgresTarget::open() {
  MILLRACE_TRY(lock_.connect());
  MILLRACE_TRY(bulk_.connect());
  MILLRACE_ASSIGN(const std::int64_t found, version_of(bulk_));
  if (found != 0) {
    MILLRACE_TRY(hold());
    if (found < 0) MILLRACE_TRY(remove_rest());
    MILLRACE_TRY(refuse_served(bulk_));
    MILLRACE_TRY(check_empty(first_filled_tables()));
    MILLRACE_TRY(lock_.execute("ROLLBACK"));
  }
  MILLRACE_TRY(make_tables());
  MILLRACE_TRY(hold());
  MILLRACE_TRY(bulk_.begin("READ COMMITTED"));
  MILLRACE_TRY(bulk_.execute("LOCK TABLE " + all_tables() + " IN EXCLUSIVE MODE"));
  MILLRACE_TRY(check_empty(copied_tables()));
  MILLRACE_TRY(bulk_.execute("UPDATE @.meta SET version = -abs(version)"));
  return bulk_.execute("COMMIT");
}

Status PostgresTarget::write_facts(const LedgerFacts& facts) {
  MILLRACE_TRY(bulk_.begin("READ COMMITTED"));
  MILLRACE_TRY(bulk_.execute("UPDATE @.meta SET epoch = " + bytea(facts.epoch) +
                             ", created_us = " + std::to_string(facts.created_us)));
  MILLRACE_TRY(bulk_.execute(
      "SELECT setval('@.job_sequence', " + std::to_string(facts.next_sequence) +
      ", false), setval('@.lease_sequence', " + std::to_string(facts.next_lease) + ", false)"));
  MILLRACE_TRY(bulk_.execute("DELETE FROM @.tenants"));
  MILLRACE_TRY(
      bulk_.execute("INSERT INTO @.tenants SELECT tenant FROM @.job_counts UNION SELECT tenant "
                    "FROM @.streams UNION SELECT tenant FROM @.pauses"));
  return bulk_.execute("COMMIT");
}

Status PostgresTarget::complete() {
  MILLRACE_TRY(bulk_.execute("ROLLBACK"));  // that of the last reader
  MILLRACE_TRY(bulk_.begin("READ COMMITTED"));
  MILLRACE_TRY(bulk_.execute("ANALYZE " + all_tables()));
  MILLRACE_TRY(bulk_.execute("DELETE FROM @.handles"));
  MILLRACE_TRY(bulk_.execute("DELETE FROM @.brokers"));
  MILLRACE_TRY(bulk_.execute("UPDATE @.meta SET version = abs(version)"));
  MILLRACE_TRY(bulk_.execute("COMMIT"));
  return lock_.execute("ROLLBACK");
}

}  // namespace

// Walks along the key's index: a sort of all bodies would fill the server's disk.
Result<std::unique_ptr<RowReader>> read_postgres_table(PostgresBulk& bulk,
                                                       const CopiedTable& table) {
  MILLRACE_TRY(bulk.execute(
      "SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off; "
      "SET LOCAL enable_bitmapscan = off; SET LOCAL max_parallel_workers_per_gather = 0"));
  MILLRACE_TRY(bulk.begin_copy_out("COPY (SELECT " + column_names(table) + " FROM @." + table.name +
                                   " ORDER BY " + key_names(table) +
                                   ") TO STDOUT (FORMAT binary)"));
  return std::make_unique<PostgresReader>(bulk);
}

Status check_postgres_version(PostgresBulk& bulk, const std::string& use) {
  MILLRACE_ASSIGN(const std::int64_t version, version_of(bulk));
  const std::string has = bulk.place() + ": the ledger's tables have version " +
                          std::to_string(version) + ", and only version " +
                          std::to_string(postgres_version) + " is " + use;
  if (version == 0) {
    return fail(Code::not_found, bulk.place() + ": there is no ledger in this database",
                "name the folder of a ledger, or the database that holds one");
  }
  if (version < 0) return fail(incomplete_copy(bulk.place()));
  if (version > postgres_version) {
    return fail(Code::ledger_newer, has, "use the newer Millrace that wrote it");
  }
  if (version == postgres_version) return {};
  return fail(Code::ledger_older, has,
              "start the broker of this version on it once, and stop it again");
}

Result<std::unique_ptr<CopiedLedger>> open_postgres_source(const std::string& url,
                                                           const std::string& schema) {
  auto source = std::make_unique<PostgresSource>(url, schema);
  MILLRACE_TRY(source->open());
  return source;
}

Result<std::unique_ptr<CopyTarget>> open_postgres_target(const std::string& url,
                                                         const std::string& schema) {
  auto target = std::make_unique<PostgresTarget>(url, schema);
  MILLRACE_TRY(target->open());
  return target;
}

}  // namespace millrace::broker
