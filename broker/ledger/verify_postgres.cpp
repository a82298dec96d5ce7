#include "broker/ledger/body_checksum.hpp"
#include "broker/ledger/postgres_bulk.hpp"
#include "broker/ledger/postgres_copy.hpp"
#include "broker/ledger/postgres_schema.hpp"
#include "broker/ledger/postgres_values.hpp"
#include "broker/ledger/table_rules.hpp"
#include "broker/ledger/verify_ledger.hpp"

namespace millrace::broker {
namespace {

// What only the tables in PostgreSQL have in this form.
constexpr TableRule rules_of_the_database[] = {
    {"a counter lies behind what it has numbered",
     "SELECT name FROM (SELECT 'job_sequence' AS name, (SELECT last_value + is_called::int FROM "
     "job_sequence) AS next, (SELECT max(sequence) FROM jobs) AS used UNION ALL SELECT "
     "'lease_sequence', (SELECT last_value + is_called::int FROM lease_sequence), greatest("
     "(SELECT max(lease) FROM leases), (SELECT max(incident) FROM jobs))) c WHERE used >= next"},
    {"the ledger has no epoch",
     "SELECT 'meta' WHERE NOT EXISTS (SELECT 1 FROM meta WHERE "
     "epoch <> '')"},
    {"a tenant has no row to lock",
     "SELECT c.tenant FROM (SELECT DISTINCT tenant FROM job_counts) c WHERE NOT EXISTS (SELECT 1 "
     "FROM tenants t WHERE t.tenant = c.tenant)"},
};

std::unexpected<Error> unsound(const PostgresBulk& bulk, const std::string& what) {
  return fail(Code::ledger_corrupt, bulk.place() + ": " + what,
              "keep the database as it is, and restore it from a sound backup");
}

// A table with the columns `checksum` and `body`; the sum is seeded with the key's last column.
Result<std::uint64_t> check_bodies_of(PostgresBulk& bulk, const CopiedTable& table) {
  std::size_t sum = 0, body = 0;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    const std::string_view name = table.columns[i].name;
    if (name == "checksum") sum = i;
    if (name == "body") body = i;
  }
  if (body == 0) return 0;
  MILLRACE_ASSIGN(const auto reader, read_postgres_table(bulk, table));
  std::string row;
  for (std::uint64_t rows = 0;; ++rows) {
    MILLRACE_ASSIGN(const bool there, reader->next(row));
    if (!there) return rows;
    MILLRACE_ASSIGN(const auto fields, fields_of(table, row));
    const auto place = postgres_integer(fields[table.key_columns - 1].bytes);
    if (checksum(fields[body].bytes, static_cast<std::uint64_t>(place)) ==
        postgres_integer(fields[sum].bytes)) {
      continue;
    }
    return unsound(bulk, std::string("a body in the table ") + table.name +
                             " is damaged: " + key_of(table, row));
  }
}

Status check_rules(PostgresBulk& bulk) {
  std::string broken;
  std::vector<TableRule> rules = table_rules();
  rules.insert(rules.end(), std::begin(rules_of_the_database), std::end(rules_of_the_database));
  for (const TableRule& rule : rules) {
    MILLRACE_ASSIGN(const auto rows, bulk.ask(std::string(rule.sql) + " LIMIT 1"));
    if (rows.empty()) continue;
    broken += (broken.empty() ? "" : "; ") + std::string(rule.what) + ": " + rows[0][0];
  }
  if (broken.empty()) return {};
  return unsound(bulk, broken);
}

Result<std::uint64_t> count(PostgresBulk& bulk, const char* table) {
  MILLRACE_ASSIGN(const auto rows, bulk.ask(std::string("SELECT count(*) FROM @.") + table));
  return std::strtoull(rows.at(0).at(0).c_str(), nullptr, 10);
}

}  // namespace

Result<LedgerReport> verify_postgres_ledger(const std::string& url, const std::string& schema) {
  PostgresBulk bulk(url, schema);
  MILLRACE_TRY(bulk.connect());
  MILLRACE_TRY(bulk.begin("REPEATABLE READ READ ONLY"));
  MILLRACE_TRY(check_postgres_version(bulk, "verified"));
  MILLRACE_TRY(check_rules(bulk));
  for (const CopiedTable& table : copied_tables()) MILLRACE_TRY(check_bodies_of(bulk, table));
  LedgerReport report;
  report.version = postgres_version;
  MILLRACE_ASSIGN(report.jobs, count(bulk, "jobs"));
  MILLRACE_ASSIGN(report.results, count(bulk, "entries"));
  MILLRACE_ASSIGN(report.streams, count(bulk, "streams"));
  return report;
}

}  // namespace millrace::broker
