// Counts, suspects, batches and pauses.
#include "broker/ledger/sqlite_records.hpp"
#include "schemas/codec.hpp"

namespace millrace::broker {

// ---- counts

void SqliteRecords::add_count(const std::string& tenant, const std::string& batch, JobState state,
                              std::int64_t change) {
  add_count_.run(tenant, batch, static_cast<int>(state), change);
}

StateCounts SqliteRecords::counts(const std::string& tenant, const std::string& batch) {
  StateCounts out{};
  Statement& s = select_counts_;
  for (bool row = s.run(tenant, batch); row; row = s.next()) {
    const auto state = static_cast<std::size_t>(s.integer(0));
    if (state < out.size()) out[state] = s.integer(1);
  }
  return out;
}

void SqliteRecords::add_ready(const std::string& tenant, const std::string& batch,
                              const std::string& model, const std::string& kv,
                              std::int64_t change) {
  if (!add_ready_.run(tenant, batch, model, kv, change)) return;
  const bool none = add_ready_.integer(0) == 0;
  (void)add_ready_.next();  // no commit is possible before a statement has come to its end
  if (none) delete_ready_.run(tenant, batch, model, kv);
}

std::vector<ReadyJobs> SqliteRecords::ready(const std::string& tenant, const std::string& batch) {
  std::vector<ReadyJobs> out;
  Statement& s = select_ready_;
  for (bool row = s.run(tenant, batch); row; row = s.next()) {
    out.push_back({s.text(0), s.text(1), s.integer(2)});
  }
  return out;
}

// Looks the next name up in the primary keys, so that the time follows the number of tenants and
// not that of their batches.
std::optional<std::string> SqliteRecords::next_tenant(const std::string& after) {
  flush_streams();
  if (!select_tenant_.run(after) || select_tenant_.null(0)) return std::nullopt;
  return select_tenant_.text(0);
}

void SqliteRecords::delete_counts(const std::string& tenant, const std::string& batch) {
  delete_counts_.run(tenant, batch);
}

// ---- suspects

std::vector<QueuedSuspects> SqliteRecords::suspect_queues(const std::string& tenant) {
  std::vector<QueuedSuspects> out;
  Statement& s = select_suspects_;
  for (bool row = s.run(tenant, smallest_group); row; row = s.next()) {
    out.push_back({{s.text(0), s.text(1), s.integer(2) != 0,
                    static_cast<std::uint64_t>(s.integer(3)), s.integer(4)},
                   s.text(5)});
  }
  return out;
}

std::uint32_t SqliteRecords::next_among(const std::string& tenant, std::uint32_t after) {
  const bool found = select_among_.run(tenant, after);
  return found ? static_cast<std::uint32_t>(select_among_.integer(0)) : 0;
}

// ---- batches

BatchRecord SqliteRecords::read_batch(const Statement& row) {
  BatchRecord out;
  out.batch = row.text(0);
  out.created_us = row.integer(1);
  out.closed = row.integer(2) != 0;
  out.finished_us = row.optional_integer(3);
  out.number = static_cast<std::uint64_t>(row.integer(4));
  out.paused = row.integer(6) != 0;
  out.stream = row.text(7);
  out.first = static_cast<std::uint64_t>(row.integer(8));
  read_metadata(row.bytes(5), out);
  return out;
}

std::optional<BatchRecord> SqliteRecords::find_batch(const std::string& tenant,
                                                     const std::string& batch) {
  if (!select_batch_record_.run(tenant, batch)) return std::nullopt;
  return read_batch(select_batch_record_);
}

void SqliteRecords::put_batch(const std::string& tenant, const BatchRecord& batch) {
  const std::string metadata = encode_labels({batch.metadata, {}});
  put_batch_.run(tenant, batch.batch, batch.created_us, batch.closed, batch.finished_us,
                 batch.number, Blob{metadata}, batch.paused, batch.stream, batch.first);
}

void SqliteRecords::delete_batch(const std::string& tenant, const std::string& batch) {
  delete_batch_.run(tenant, batch);
}

std::vector<BatchRecord> SqliteRecords::list_batches(const std::string& tenant,
                                                     const std::string& after,
                                                     std::uint64_t max_batches) {
  std::vector<BatchRecord> out;
  Statement& s = list_batches_;
  for (bool row = s.run(tenant, after, max_batches); row; row = s.next()) {
    out.push_back(read_batch(s));
  }
  return out;
}

// ---- pauses

std::vector<std::string> SqliteRecords::set_aside(const std::string& tenant,
                                                  const std::string& batch,
                                                  std::uint64_t max_jobs) {
  std::vector<std::string> out;
  Statement& s = select_set_aside_;
  for (bool row = s.run(tenant, batch, max_jobs); row; row = s.next()) out.push_back(s.text(0));
  return out;
}

std::optional<std::string> SqliteRecords::next_set_aside(const std::string& tenant,
                                                         const std::string& after) {
  if (!next_set_aside_.run(tenant, after)) return std::nullopt;
  return next_set_aside_.text(0);
}

std::vector<std::string> SqliteRecords::paused_models(const std::string& tenant) {
  std::vector<std::string> out;
  Statement& s = select_pauses_;
  for (bool row = s.run(tenant); row; row = s.next()) out.push_back(s.text(0));
  return out;
}

void SqliteRecords::insert_pause(const std::string& tenant, const std::string& model) {
  insert_pause_.run(tenant, model);
}

void SqliteRecords::delete_pause(const std::string& tenant, const std::string& model) {
  delete_pause_.run(tenant, model);
}

}  // namespace millrace::broker
