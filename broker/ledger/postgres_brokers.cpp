// The brokers that use the database, and what they tell each other. Times are those of the server.
#include "broker/ledger/postgres_records.hpp"

namespace millrace::broker {
namespace {

#define MILLRACE_POSTGRES_NOW "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
// A handle that comes back asks its row what became of its last commit, so these rows stay long.
constexpr std::int64_t forgotten_us = 86'400'000'000;

}  // namespace

std::uint64_t PostgresRecords::beat(std::int64_t alive_us) {
  if (broker_.empty()) return 0;
  connection_.send("INSERT INTO @.brokers VALUES ($1, " MILLRACE_POSTGRES_NOW
                   " + $2) ON CONFLICT (broker) DO UPDATE SET until_us = excluded.until_us",
                   broker_, alive_us);
  connection_.send("DELETE FROM @.news WHERE broker = $1 AND written_us < " MILLRACE_POSTGRES_NOW
                   " - $2",
                   broker_, news_kept_us);
  // Of brokers that are gone. A row that somebody else has locked is left for the next time.
  connection_.send(
      "DELETE FROM @.news n USING (SELECT broker FROM @.brokers WHERE until_us "
      "< " MILLRACE_POSTGRES_NOW " - $1 FOR UPDATE SKIP LOCKED) b WHERE n.broker = b.broker",
      news_kept_us);
  connection_.send(
      "DELETE FROM @.brokers WHERE broker IN (SELECT broker FROM @.brokers WHERE until_us "
      "< " MILLRACE_POSTGRES_NOW " - $1 FOR UPDATE SKIP LOCKED)",
      forgotten_us);
  connection_.send(
      "DELETE FROM @.handles WHERE handle IN (SELECT h.handle FROM @.handles h WHERE h.seen_us "
      "< " MILLRACE_POSTGRES_NOW
      " - $1 AND NOT EXISTS (SELECT FROM @.brokers b WHERE b.broker = "
      "h.broker) FOR UPDATE SKIP LOCKED)",
      forgotten_us);
  const auto rows = connection_.ask(
      "SELECT count(*) FROM @.brokers WHERE broker <> $1 AND until_us > " MILLRACE_POSTGRES_NOW,
      broker_);
  return rows.size() == 0 ? 0 : rows.number(0, 0);
}

std::set<LeaseId> PostgresRecords::held_elsewhere(std::span<const LeaseId> leases) {
  std::set<LeaseId> out;
  if (leases.empty() || !others_live_) return out;
  flush_leases();
  IntegerColumn numbers;
  for (const LeaseId lease : leases) numbers.add(lease);
  const auto rows = connection_.ask(
      "SELECT l.lease FROM @.leases l JOIN @.brokers b ON b.broker = l.broker WHERE l.lease = "
      "ANY($1) AND l.broker <> $2 AND b.until_us > " MILLRACE_POSTGRES_NOW,
      numbers, broker_);
  for (int row = 0; row < rows.size(); ++row) out.insert(rows.number(row, 0));
  return out;
}

// One statement, so that the marks and the news are of one moment. The numbers of a handle's
// batches grow in the order of their commits, because it carries out one at a time.
std::vector<News> PostgresRecords::read_news(NewsMarks& marks) {
  std::vector<News> out;
  if (broker_.empty()) return out;
  TextColumn handles;
  IntegerColumn batches;
  for (const auto& [handle, batch] : marks) {
    handles.add(handle);
    batches.add(batch);
  }
  const auto rows = connection_.ask(
      "SELECT h.handle, h.batch, n.kind, n.tenant, n.name, n.number FROM @.handles h "
      "LEFT JOIN unnest($2::bytea[], $3::bigint[]) u(handle, batch) ON u.handle = h.handle "
      "LEFT JOIN LATERAL (SELECT * FROM @.news m WHERE m.handle = h.handle AND "
      "m.batch > coalesce(u.batch, 0)) n ON true "
      "WHERE h.broker <> $1 AND h.broker <> '' AND h.batch > coalesce(u.batch, 0) "
      "ORDER BY h.handle, n.batch",
      broker_, handles, batches);
  for (int row = 0; row < rows.size(); ++row) {
    marks[rows.text(row, 0)] = rows.number(row, 1);
    if (rows.null(row, 2)) continue;
    const std::int64_t kind = rows.integer(row, 2);
    // A kind that a newer broker tells, and this one does not know.
    if (kind < 0 || kind > static_cast<std::int64_t>(News::Kind::lost)) continue;
    out.push_back(
        {static_cast<News::Kind>(kind), rows.text(row, 3), rows.text(row, 4), rows.number(row, 5)});
  }
  return out;
}

void PostgresRecords::tell(const std::string& handle, std::int64_t batch,
                           std::span<const News> news) {
  if (broker_.empty() || !others_live_ || news.empty()) return;
  IntegerColumn kinds, numbers;
  TextColumn tenants, names;
  for (const News& one : news) {
    kinds.add(static_cast<std::int64_t>(one.kind));
    tenants.add(one.tenant);
    names.add(one.name);
    numbers.add(one.number);
  }
  connection_.send(
      "INSERT INTO @.news (handle, batch, broker, written_us, kind, tenant, name, number) "
      "SELECT $1, $2, $3, " MILLRACE_POSTGRES_NOW
      ", u.* FROM unnest($4::bigint[], $5::bytea[], $6::bytea[], $7::bigint[]) u",
      handle, batch, broker_, kinds, tenants, names, numbers);
}

#undef MILLRACE_POSTGRES_NOW

}  // namespace millrace::broker
