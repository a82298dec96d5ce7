#pragma once
// What must hold between the tables of a ledger's file whatever happened to it: counts are the sums
// of the jobs, the queue and the leases are those of the jobs, bodies are where they belong.
// Thread safety: that of the database.
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "broker/ledger/sqlite_database.hpp"

namespace millrace::broker::test {

#define READY_JOBS                                                                               \
  "WITH ready AS (SELECT q.tenant, j.batch, q.model, q.kv, ifnull(b.paused, 0) AS paused FROM "  \
  "queue q JOIN jobs j ON j.tenant = q.tenant AND j.job = q.job LEFT JOIN batches b ON "         \
  "b.tenant = j.tenant AND b.batch = j.batch WHERE q.suspect = 0), "                             \
  "ready_jobs AS (SELECT tenant, batch, model, kv, count(*) FROM ready WHERE batch <> '' GROUP " \
  "BY 1, 2, 3, 4 UNION ALL SELECT tenant, '', model, kv, count(*) FROM ready WHERE NOT paused "  \
  "GROUP BY 1, 3, 4) "

// Each query finds the rows that break a rule.
inline constexpr auto table_rules = std::to_array<std::pair<const char*, const char*>>({
    {"jobs that are not counted",
     "SELECT tenant, batch, state, count(*) FROM jobs WHERE batch <> '' GROUP BY 1, 2, 3 "
     "UNION ALL SELECT tenant, '', state, count(*) FROM jobs GROUP BY 1, 3 "
     "EXCEPT SELECT tenant, batch, state, jobs FROM job_counts"},
    {"counts of no jobs",
     "SELECT tenant, batch, state, jobs FROM job_counts WHERE jobs <> 0 EXCEPT "
     "SELECT * FROM (SELECT tenant, batch, state, count(*) FROM jobs WHERE batch <> '' "
     "GROUP BY 1, 2, 3 UNION ALL SELECT tenant, '', state, count(*) FROM jobs GROUP BY 1, 3)"},
    {"ready jobs that are not counted", READY_JOBS
     "SELECT * FROM ready_jobs EXCEPT SELECT tenant, batch, model, kv, jobs FROM ready_counts"},
    {"counts of jobs that are not ready", READY_JOBS
     "SELECT tenant, batch, model, kv, jobs FROM ready_counts EXCEPT SELECT * FROM ready_jobs"},
    {"queued jobs outside of the queue",
     "SELECT tenant, job FROM jobs WHERE state = 0 AND start_us IS NULL EXCEPT "
     "SELECT tenant, job FROM queue"},
    {"entries of the queue without a queued job",
     "SELECT tenant, job FROM queue EXCEPT "
     "SELECT tenant, job FROM jobs WHERE state = 0 AND start_us IS NULL"},
    {"jobs that are queued twice",
     "SELECT tenant, job FROM queue GROUP BY 1, 2 HAVING count(*) > 1"},
    {"jobs that wait for a start and are not queued",
     "SELECT tenant, job FROM jobs WHERE state <> 0 AND start_us IS NOT NULL"},
    {"jobs without their batch",
     "SELECT tenant, batch FROM jobs WHERE batch <> '' EXCEPT SELECT tenant, batch FROM batches"},
    {"batches without a job",
     "SELECT tenant, batch FROM batches EXCEPT SELECT tenant, batch FROM jobs"},
    {"closed batches that did not finish, and others that did",
     "SELECT * FROM batches b WHERE (finished_us IS NOT NULL) <> (closed AND NOT EXISTS (SELECT * "
     "FROM jobs j WHERE j.tenant = b.tenant AND j.batch = b.batch AND j.state < 2))"},
    {"jobs that were set aside and have no batch",
     "SELECT tenant, job FROM jobs WHERE start_us = 9223372036854775807 AND batch = ''"},
    {"leased jobs without their lease",
     "SELECT tenant, job, lease FROM jobs WHERE state = 1 EXCEPT "
     "SELECT tenant, job, lease FROM leases"},
    {"leases without their job",
     "SELECT tenant, job, lease FROM leases EXCEPT "
     "SELECT tenant, job, lease FROM jobs WHERE state = 1"},
    {"jobs without a body",
     "SELECT tenant, sequence FROM jobs WHERE state IN (0, 1, 3) EXCEPT "
     "SELECT tenant, sequence FROM job_bodies"},
    {"bodies that nobody needs",
     "SELECT tenant, sequence FROM job_bodies EXCEPT "
     "SELECT tenant, sequence FROM jobs WHERE state IN (0, 1, 3)"},
    {"streams that lack numbers or count other bytes",
     "SELECT * FROM streams s WHERE bytes <> (SELECT ifnull(sum(length(body)), 0) FROM entries e "
     "WHERE e.tenant = s.tenant AND e.stream = s.stream) OR high + 1 - oldest <> (SELECT count(*) "
     "FROM entries e WHERE e.tenant = s.tenant AND e.stream = s.stream AND number >= s.oldest AND "
     "number <= s.high)"},
    {"entries outside of their stream",
     "SELECT * FROM entries e WHERE NOT EXISTS (SELECT * FROM streams s WHERE "
     "s.tenant = e.tenant AND s.stream = e.stream AND e.number BETWEEN s.oldest AND s.high)"},
    {"numbers of streams that two jobs have",
     "SELECT tenant, stream, number FROM jobs WHERE number > 0 GROUP BY 1, 2, 3 "
     "HAVING count(*) > 1"},
});
#undef READY_JOBS

// The rules that the file breaks, the file's own structure included.
inline std::vector<std::string> broken_rules(Database& database) {
  std::vector<std::string> broken;
  const auto sound = database.pragma("integrity_check");
  if (!sound || *sound != "ok") broken.push_back(sound ? *sound : sound.error().text());
  for (const auto& [rule, query] : table_rules) {
    const std::string count = std::string("SELECT count(*) FROM (") + query + ")";
    Statement rows(database, count.c_str());
    const std::int64_t found = rows.run() ? rows.integer(0) : 0;
    if (found > 0) broken.push_back(std::to_string(found) + " " + rule);
  }
  database.reset_statements();
  if (!database.status()) broken.push_back(database.status().error().text());
  return broken;
}

}  // namespace millrace::broker::test
