#include "broker/ledger/table_rules.hpp"

#include <span>

#include "broker/ledger/sqlite_schema.hpp"

namespace millrace::broker {
namespace {

// Each rule reads its tables once, and others by their keys alone, so that its time follows the
// number of rows. They are written so that both SQLite and PostgreSQL understand them. What one
// table repeats of another is compared in both directions: rows that are missing are as wrong as
// rows that are too many.

#define JOB(row) "'job ' || " row ".job || ' of tenant ' || " row ".tenant"
#define STREAM(row) "'stream ' || " row ".stream || ' of tenant ' || " row ".tenant"
#define BATCH(row) "'batch ' || " row ".batch || ' of tenant ' || " row ".tenant"
#define BATCH_OR_TENANT(row) \
  "CASE " row ".batch WHEN '' THEN 'tenant ' || " row ".tenant ELSE " BATCH(row) " END"

constexpr TableRule rules_of_jobs[] = {
    {"a job's state and what is kept of its end, its start or its suspicion do not match",
     "SELECT " JOB("j") " FROM jobs j WHERE state NOT BETWEEN 0 AND 5 OR "
                        "(state >= 2) <> (ended_us IS NOT NULL) OR (state >= 2) <> (number > 0) OR "
                        "(state <> 0 AND start_us IS NOT NULL) OR "
                        "(start_us = " MILLRACE_UNTIL_RESUMED " AND batch = '') OR "
                        "(suspect_us IS NOT NULL) <> (among > 0)"},
    {"a job that can run, or run again, has no body",
     "SELECT " JOB("j") " FROM jobs j WHERE j.state IN (0, 1, 3) AND NOT EXISTS (SELECT 1 FROM "
                        "job_bodies b WHERE b.tenant = j.tenant AND b.sequence = j.sequence)"},
    // Each job that needs a body has its own, so numbers tell whether there are others.
    {"there are bodies that no job needs",
     "SELECT 'tenant ' || b.tenant FROM (SELECT tenant, count(*) AS bodies FROM job_bodies GROUP "
     "BY tenant) b LEFT JOIN (SELECT tenant, count(*) FILTER (WHERE state IN (0, 1, 3)) AS jobs "
     "FROM jobs GROUP BY "
     "tenant) j ON j.tenant = b.tenant WHERE b.bodies <> coalesce(j.jobs, 0)"},
    {"a job whose time has come is not in the queue",
     "SELECT " JOB(
         "j") " FROM jobs j WHERE j.state = 0 AND j.start_us IS NULL AND NOT EXISTS ("
              "SELECT 1 FROM queue q WHERE q.tenant = j.tenant AND q.suspect = j.among AND "
              "q.model = j.model AND q.kv = j.kv AND q.priority = j.priority AND "
              "q.sequence = j.sequence AND q.job = j.job)"},
    {"a place in the queue is not that of a queued job",
     "SELECT " JOB("q") " FROM queue q LEFT JOIN jobs j ON j.tenant = q.tenant AND j.job = q.job "
                        "WHERE j.state IS DISTINCT FROM 0 OR j.start_us IS NOT NULL OR q.suspect "
                        "<> j.among OR "
                        "q.model <> j.model OR q.kv <> j.kv OR q.priority <> j.priority OR "
                        "q.sequence <> j.sequence OR q.deadline_us IS DISTINCT FROM j.deadline_us "
                        "OR q.prefix <> "
                        "j.prefix"},
    {"a leased job and its lease do not match",
     "SELECT " JOB("j") " FROM jobs j LEFT JOIN leases l ON l.lease = j.lease WHERE "
                        "(j.state = 1) <> (j.lease IS NOT NULL) OR "
                        "(j.state = 1 AND (l.job IS DISTINCT FROM j.job OR l.tenant IS DISTINCT "
                        "FROM j.tenant))"},
    {"a lease is not that of a leased job",
     "SELECT 'lease ' || l.lease || ' of ' || " JOB(
         "l") " FROM leases l LEFT JOIN jobs j ON "
              "j.tenant = l.tenant AND j.job = l.job WHERE "
              "j.state IS DISTINCT FROM 1 OR j.lease IS DISTINCT FROM l.lease"},
};

constexpr TableRule rules_of_counts[] = {
    {"the counts of jobs do not match the jobs",
     "WITH there AS MATERIALIZED (SELECT tenant, batch, state, count(*) AS jobs FROM jobs WHERE "
     "batch <> '' GROUP BY 1, 2, 3 UNION ALL SELECT tenant, '', state, count(*) FROM jobs GROUP "
     "BY 1, 3), "
     "counted AS (SELECT tenant, batch, state, jobs FROM job_counts WHERE jobs <> 0) "
     "SELECT " BATCH_OR_TENANT(
         "x") " FROM ("
              "SELECT * FROM (SELECT * FROM there EXCEPT SELECT * FROM counted) a UNION ALL "
              "SELECT * FROM (SELECT * FROM counted EXCEPT SELECT * FROM there) b) x"},
    {"the counts of ready jobs do not match the jobs",
     "WITH ready AS (SELECT j.tenant, j.batch, j.model, j.kv, coalesce(b.paused, 0) AS paused, "
     "count(*) AS jobs FROM jobs j LEFT JOIN batches b ON b.tenant = j.tenant AND "
     "b.batch = j.batch WHERE j.state = 0 AND j.start_us IS NULL AND j.suspect_us IS NULL "
     "GROUP BY 1, 2, 3, 4, 5), "
     "there AS MATERIALIZED (SELECT tenant, batch, model, kv, jobs FROM ready WHERE batch <> '' "
     "UNION ALL SELECT tenant, '', model, kv, sum(jobs) FROM ready WHERE paused = 0 GROUP BY "
     "1, 3, 4), "
     "counted AS (SELECT tenant, batch, model, kv, jobs FROM ready_counts WHERE jobs <> 0) "
     "SELECT " BATCH_OR_TENANT(
         "x") " FROM ("
              "SELECT * FROM (SELECT * FROM there EXCEPT SELECT * FROM counted) a UNION ALL "
              "SELECT * FROM (SELECT * FROM counted EXCEPT SELECT * FROM there) b) x"},
};

// The index of the jobs of batches serves only what asks for batches that have a name.
#define JOBS_OF_BATCH \
  "SELECT 1 FROM jobs j WHERE j.tenant = b.tenant AND j.batch = b.batch AND j.batch <> ''"

constexpr TableRule rules_of_batches[] = {
    {"a job belongs to a batch that does not exist",
     "SELECT " BATCH("j") " FROM (SELECT DISTINCT tenant, batch FROM jobs WHERE batch <> '') j "
                          "WHERE NOT EXISTS (SELECT 1 FROM batches b WHERE b.tenant = j.tenant AND "
                          "b.batch = j.batch)"},
    {"a batch has no jobs",
     "SELECT " BATCH("b") " FROM batches b WHERE NOT EXISTS (" JOBS_OF_BATCH ")"},
    {"a batch has ended before its jobs or without its entry, or has not ended after them",
     "SELECT " BATCH(
         "b") " FROM batches b WHERE (b.finished_us IS NOT NULL) <> (b.closed <> 0 AND NOT "
              "EXISTS (" JOBS_OF_BATCH " AND j.state < 2)) OR "
              "(b.finished_us IS NOT NULL) <> (b.number > 0)"},
};

constexpr TableRule rules_of_streams[] = {
    {"a stream has gaps",
     "SELECT " STREAM("s") " FROM streams s WHERE s.high - s.oldest + 1 <> (SELECT count(*) FROM "
                           "entries e WHERE e.tenant = s.tenant AND e.stream = s.stream AND "
                           "e.number BETWEEN s.oldest "
                           "AND s.high)"},
    {"results belong to no stream, or lie outside of it",
     "SELECT " STREAM(
         "e") " FROM (SELECT tenant, stream, min(number) AS low, max(number) AS high "
              "FROM entries GROUP BY tenant, stream) e LEFT JOIN streams s ON s.tenant = e.tenant "
              "AND "
              "s.stream = e.stream WHERE s.stream IS NULL OR e.low < s.oldest OR e.high > s.high"},
    {"a stream's bytes are not those of its results",
     "SELECT " STREAM(
         "s") " FROM streams s WHERE s.bytes <> (SELECT coalesce(sum(length(body)), 0) "
              "FROM entries e WHERE e.tenant = s.tenant AND e.stream = s.stream)"},
    {"a stream's first number lies outside of it",
     "SELECT " STREAM("s") " FROM streams s WHERE s.oldest < 1 OR s.first NOT BETWEEN s.oldest "
                           "AND s.high + 1"},
    {"a cursor belongs to no stream, or lies behind its end",
     "SELECT 'cursor ' || c.cursor || ' of ' || " STREAM(
         "c") " FROM cursors c LEFT JOIN streams s "
              "ON s.tenant = c.tenant AND s.stream = c.stream WHERE s.stream IS NULL OR "
              "c.number NOT BETWEEN 0 AND s.high"},
    {"two jobs have one result",
     "SELECT 'result ' || j.number || ' of ' || " STREAM(
         "j") " FROM jobs j WHERE j.number > 0 "
              "GROUP BY j.tenant, j.stream, j.number HAVING count(*) > 1"},
    {"a job's result is not in its stream",
     "SELECT " JOB("j") " FROM jobs j LEFT JOIN streams s ON s.tenant = j.tenant AND "
                        "s.stream = j.stream LEFT JOIN entries e ON e.tenant = j.tenant AND "
                        "e.stream = j.stream AND "
                        "e.number = j.number WHERE j.number > 0 AND (s.stream IS NULL OR j.number "
                        "> s.high OR "
                        "(j.number >= s.oldest AND e.job IS DISTINCT FROM j.job))"},
};

// What only the file has in this form.
constexpr TableRule rules_of_the_file[] = {
    {"a counter lies behind what it has numbered",
     "WITH used (name, value) AS (SELECT 'next_sequence', (SELECT max(sequence) FROM jobs) UNION "
     "ALL SELECT 'next_lease', (SELECT max(lease) FROM leases) UNION ALL SELECT 'next_lease', "
     "(SELECT max(incident) FROM jobs)) "
     "SELECT u.name FROM used u LEFT JOIN counters c ON c.name = u.name WHERE c.value IS NULL OR "
     "c.value <= u.value"},
    {"the ledger has no epoch",
     "SELECT 'meta' WHERE NOT EXISTS (SELECT 1 FROM meta WHERE name = 'epoch' AND value <> '')"},
};

Status check(Database& database, std::span<const TableRule> rules,
             std::vector<std::string>& broken) {
  for (const TableRule& rule : rules) {
    Statement places(database, rule.sql);
    if (places.run()) broken.push_back(rule.what + (": " + places.text(0)));
    MILLRACE_TRY(database.status());
  }
  return {};
}

}  // namespace

std::vector<TableRule> table_rules() {
  std::vector<TableRule> out;
  for (const std::span<const TableRule> some :
       {std::span<const TableRule>(rules_of_jobs), std::span<const TableRule>(rules_of_counts),
        std::span<const TableRule>(rules_of_batches),
        std::span<const TableRule>(rules_of_streams)}) {
    out.insert(out.end(), some.begin(), some.end());
  }
  return out;
}

Result<std::vector<std::string>> broken_table_rules(Database& database) {
  std::vector<std::string> broken;
  MILLRACE_TRY(check(database, table_rules(), broken));
  MILLRACE_TRY(check(database, rules_of_the_file, broken));
  return broken;
}

}  // namespace millrace::broker
