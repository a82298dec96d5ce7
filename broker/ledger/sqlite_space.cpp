#include "broker/ledger/sqlite_space.hpp"

#include <algorithm>

namespace millrace::broker {
namespace {

constexpr std::int64_t spare_share = 8;  // of the file's pages, one in so many stays free

}  // namespace

SqliteSpace::SqliteSpace(Database& database, std::uint32_t spare_pages, const Clock& clock)
    : database_(database),
      clock_(clock),
      spare_pages_(spare_pages),
      count_pages_(database, "PRAGMA page_count"),
      count_free_(database, "PRAGMA freelist_count"),
      vacuum_(database, "PRAGMA incremental_vacuum") {}

Status SqliteSpace::give_back(std::int64_t budget_us) {
  const std::int64_t free = count_free_.run() ? count_free_.integer(0) : 0;
  const std::int64_t pages = count_pages_.run() ? count_pages_.integer(0) : 0;
  database_.reset_statements();
  MILLRACE_TRY(database_.status());
  const std::int64_t spare = std::max(spare_pages_, pages / spare_share);
  giving_ = free > (giving_ ? spare : 2 * spare);
  if (!giving_) return {};
  const Status done = step(free - spare, budget_us);
  if (done) return {};
  database_.forget_failure();
  database_.reset_statements();
  if (database_.in_transaction()) MILLRACE_TRY(database_.execute("ROLLBACK"));
  if (done.error().code == Code::disk_full) return {};
  return done;
}

Status SqliteSpace::step(std::int64_t pages, std::int64_t budget_us) {
  const std::int64_t until_us = clock_.monotonic_us() + budget_us;
  MILLRACE_TRY(database_.execute("BEGIN IMMEDIATE"));
  // Each row stands for one page that was given back.
  for (bool row = vacuum_.run(); row && --pages > 0 && clock_.monotonic_us() < until_us;) {
    row = vacuum_.next();
  }
  database_.reset_statements();
  MILLRACE_TRY(database_.status());
  return database_.execute("COMMIT");
}

}  // namespace millrace::broker
