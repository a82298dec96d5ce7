// Counts, suspects, batches and pauses.
#include "broker/ledger/postgres_records.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker {

// ---- counts

// What is kept of a batch, read once in a transaction.
PostgresRecords::KeptBatch& PostgresRecords::kept_batch(const std::string& tenant,
                                                        const std::string& batch) {
  const Key key(tenant, batch);
  if (!batches_.contains(key)) {
    ExpectedRecords expected;
    expected.batches.insert(key);
    expect(expected);
  }
  return batches_[key];
}

void PostgresRecords::add_count(const std::string& tenant, const std::string& batch, JobState state,
                                std::int64_t change) {
  kept_batch(tenant, batch).counts[static_cast<std::size_t>(state)] += change;
  counts_[{tenant, batch, static_cast<int>(state)}] += change;
}

StateCounts PostgresRecords::counts(const std::string& tenant, const std::string& batch) {
  return kept_batch(tenant, batch).counts;
}

void PostgresRecords::add_ready(const std::string& tenant, const std::string& batch,
                                const std::string& model, const std::string& kv,
                                std::int64_t change) {
  kept_batch(tenant, batch).ready[{model, kv}] += change;
  ready_[{tenant, batch, model, kv}] += change;
}

// Rows of 0 jobs stay until their batch goes: they would come and go all the time.
std::vector<ReadyJobs> PostgresRecords::ready(const std::string& tenant, const std::string& batch) {
  std::vector<ReadyJobs> out;
  for (const auto& [queue, jobs] : kept_batch(tenant, batch).ready) {
    if (jobs != 0) out.push_back({queue.first, queue.second, jobs});
  }
  return out;
}

std::optional<std::string> PostgresRecords::next_tenant(const std::string& after) {
  flush_counts();
  flush_streams();
  // bytea has no min before version 18.
  const auto rows = connection_.ask(
      "SELECT tenant FROM ((SELECT tenant FROM @.job_counts WHERE tenant > $1 ORDER BY tenant "
      "LIMIT 1) UNION ALL (SELECT tenant FROM @.streams WHERE tenant > $1 ORDER BY tenant LIMIT "
      "1)) "
      "t ORDER BY tenant LIMIT 1",
      after);
  if (rows.size() == 0) return std::nullopt;
  return rows.text(0, 0);
}

void PostgresRecords::delete_counts(const std::string& tenant, const std::string& batch) {
  KeptBatch& kept = kept_batch(tenant, batch);
  kept.counts = {};
  kept.ready.clear();
  flush_counts();
  connection_.send("DELETE FROM @.job_counts WHERE tenant = $1 AND batch = $2", tenant, batch);
  connection_.send("DELETE FROM @.ready_counts WHERE tenant = $1 AND batch = $2 AND jobs = 0",
                   tenant, batch);
}

// ---- suspects

std::vector<QueuedSuspects> PostgresRecords::suspect_queues(const std::string& tenant) {
  own(tenant);
  flush_jobs();
  flush_queue();
  const auto rows = connection_.ask(
      "SELECT q.model, q.kv, (q.suspect < $2)::int::bigint, count(*), min(j.suspect_us), j.batch "
      "FROM @.queue q JOIN @.jobs j ON j.tenant = q.tenant AND j.job = q.job WHERE q.tenant = $1 "
      "AND q.suspect > 0 GROUP BY 1, 2, 3, 6 ORDER BY 1, 2, 3, 6",
      tenant, smallest_group);
  std::vector<QueuedSuspects> out;
  for (int row = 0; row < rows.size(); ++row) {
    out.push_back({{rows.text(row, 0), rows.text(row, 1), rows.integer(row, 2) != 0,
                    rows.number(row, 3), rows.integer(row, 4)},
                   rows.text(row, 5)});
  }
  return out;
}

std::uint32_t PostgresRecords::next_among(const std::string& tenant, std::uint32_t after) {
  own(tenant);
  flush_queue();
  const auto rows = connection_.ask(
      "SELECT suspect FROM @.queue WHERE tenant = $1 AND suspect > $2 ORDER BY suspect LIMIT 1",
      tenant, after);
  return rows.size() == 0 ? 0 : static_cast<std::uint32_t>(rows.integer(0, 0));
}

// ---- batches

#define MILLRACE_POSTGRES_BATCH \
  "batch, created_us, closed, finished_us, number, metadata, paused, stream, first"

BatchRecord PostgresRecords::read_batch(const PostgresRows& rows, int row) {
  BatchRecord out;
  out.batch = rows.text(row, 0);
  out.created_us = rows.integer(row, 1);
  out.closed = rows.integer(row, 2) != 0;
  out.finished_us = rows.optional_integer(row, 3);
  out.number = rows.number(row, 4);
  out.paused = rows.integer(row, 6) != 0;
  out.stream = rows.text(row, 7);
  out.first = rows.number(row, 8);
  read_metadata(rows.bytes(row, 5), out);
  return out;
}

std::optional<BatchRecord> PostgresRecords::find_batch(const std::string& tenant,
                                                       const std::string& batch) {
  return kept_batch(tenant, batch).record;
}

void PostgresRecords::put_batch(const std::string& tenant, const BatchRecord& batch) {
  kept_batch(tenant, batch.batch).record = batch;
  connection_.send(
      "INSERT INTO @.batches (tenant, batch, created_us, closed, finished_us, number, metadata, "
      "paused, stream, first) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10) ON CONFLICT "
      "(tenant, batch) DO UPDATE SET created_us = excluded.created_us, closed = excluded.closed, "
      "finished_us = excluded.finished_us, number = excluded.number, "
      "metadata = excluded.metadata, paused = excluded.paused, stream = excluded.stream, "
      "first = excluded.first",
      tenant, batch.batch, batch.created_us, batch.closed ? 1 : 0, batch.finished_us, batch.number,
      encode_labels({batch.metadata, {}}), batch.paused ? 1 : 0, batch.stream, batch.first);
}

void PostgresRecords::delete_batch(const std::string& tenant, const std::string& batch) {
  kept_batch(tenant, batch).record.reset();
  connection_.send("DELETE FROM @.batches WHERE tenant = $1 AND batch = $2", tenant, batch);
}

std::vector<BatchRecord> PostgresRecords::list_batches(const std::string& tenant,
                                                       const std::string& after,
                                                       std::uint64_t max_batches) {
  own(tenant);
  const auto rows =
      connection_.ask("SELECT " MILLRACE_POSTGRES_BATCH
                      " FROM @.batches WHERE tenant = $1 AND batch > $2 ORDER BY batch LIMIT $3",
                      tenant, after, max_batches);
  std::vector<BatchRecord> out;
  for (int row = 0; row < rows.size(); ++row) out.push_back(read_batch(rows, row));
  return out;
}

#undef MILLRACE_POSTGRES_BATCH

// ---- pauses

std::vector<std::string> PostgresRecords::set_aside(const std::string& tenant,
                                                    const std::string& batch,
                                                    std::uint64_t max_jobs) {
  own(tenant);
  flush_jobs();
  return names(
      connection_.ask("SELECT job FROM @.jobs WHERE tenant = $1 AND batch = $2 AND "
                      "start_us = 9223372036854775807 ORDER BY sequence LIMIT $3",
                      tenant, batch, max_jobs));
}

std::optional<std::string> PostgresRecords::next_set_aside(const std::string& tenant,
                                                           const std::string& after) {
  own(tenant);
  flush_jobs();
  const auto rows = connection_.ask(
      "SELECT batch FROM @.jobs WHERE tenant = $1 AND batch > $2 AND "
      "start_us = 9223372036854775807 ORDER BY batch LIMIT 1",
      tenant, after);
  if (rows.size() == 0) return std::nullopt;
  return rows.text(0, 0);
}

std::vector<std::string> PostgresRecords::paused_models(const std::string& tenant) {
  kept_batch(tenant, "");  // which reads the pauses, too
  const auto& models = pauses_[tenant];
  return {models.begin(), models.end()};
}

void PostgresRecords::insert_pause(const std::string& tenant, const std::string& model) {
  own(tenant);
  pauses_[tenant].insert(model);
  connection_.send("INSERT INTO @.pauses VALUES ($1, $2) ON CONFLICT DO NOTHING", tenant, model);
}

void PostgresRecords::delete_pause(const std::string& tenant, const std::string& model) {
  own(tenant);
  pauses_[tenant].erase(model);
  connection_.send("DELETE FROM @.pauses WHERE tenant = $1 AND model = $2", tenant, model);
}

}  // namespace millrace::broker
