// Copies of a ledger with many jobs and results: MILLRACE_COPY_ROWS of each. It prints how long
// each copy takes and how much memory the process has had.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "broker/ledger/ledger_copy.hpp"
#include "broker/ledger/open_ledger.hpp"
#include "broker/ledger/postgres_copy.hpp"
#include "broker/ledger/sqlite_copy.hpp"
#include "schemas/base/clock.hpp"
#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

constexpr std::uint64_t operations_at_once = 4000;

std::uint64_t wanted_rows() {
  const char* const text = std::getenv("MILLRACE_COPY_ROWS");
  return text == nullptr ? 10'000 : std::strtoull(text, nullptr, 10);
}

long most_memory_mib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

void fill(const std::string& path, std::uint64_t rows) {
  SqliteLedgerOptions options;
  options.publish = publish;
  options.ballast_bytes = 0;
  DurabilitySettings unsynced;
  unsynced.synchronous = "OFF";
  auto ledger = open_weakened_sqlite_ledger(path, std::move(options), unsynced);
  ASSERT_TRUE(ledger);
  for (std::uint64_t row = 0; row < rows; row += operations_at_once / 2) {
    std::vector<Operation> batch;
    for (std::uint64_t n = row; n < std::min(rows, row + operations_at_once / 2); ++n) {
      SubmitJob one = job(numbered("job-", n), numbered("batch-", n / 100'000));
      one.body.append(600, 'p');
      batch.emplace_back(std::move(one));
      batch.emplace_back(Append{tenant, "results", numbered("ended-", n), Body(1000, 'r')});
    }
    const auto replies = (*ledger)->apply(batch, start_us);
    ASSERT_TRUE(replies) << replies.error().text();
    for (const auto& reply : *replies) ASSERT_TRUE(reply) << reply.error().text();
    ASSERT_TRUE((*ledger)->idle());
  }
}

void copy(CopiedLedger& from, CopyTarget& to, std::uint64_t rows, const char* what) {
  const SystemClock clock;
  const std::int64_t begun_us = clock.monotonic_us();
  const auto report = copy_ledger(from, to, {});
  ASSERT_TRUE(report) << report.error().text();
  for (const CopiedTableReport& table : report->tables) {
    const bool large = table.table == "jobs" || table.table == "job_bodies" ||
                       table.table == "queue" || table.table == "entries";
    if (large) {
      EXPECT_EQ(table.rows, rows) << table.table;
    }
  }
  std::printf("%s: %llu jobs and as many results in %.1f s; the process has had %ld MiB\n", what,
              static_cast<unsigned long long>(rows),
              static_cast<double>(clock.monotonic_us() - begun_us) / 1e6, most_memory_mib());
}

TEST(CopySize, ManyJobsAndResultsGoThereAndBack) {
  const TemporaryFolder one, other;
  const PostgresSchema schema;
  const std::string& url = millrace::test::postgres_url();
  const std::uint64_t rows = wanted_rows();
  fill(one.file(ledger_file), rows);
  {
    const auto from = open_sqlite_source(one.file(""));
    const auto to = open_postgres_target(url, schema.name());
    ASSERT_TRUE(from && to);
    copy(**from, **to, rows, "file to PostgreSQL");
  }
  const auto from = open_postgres_source(url, schema.name());
  const auto to = open_sqlite_target(other.file(""));
  ASSERT_TRUE(from && to);
  copy(**from, **to, rows, "PostgreSQL to file");
}

}  // namespace
}  // namespace millrace::broker::test
