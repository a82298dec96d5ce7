// What all operations share, the operations on streams, and those that only read. The operations on
// jobs and leases are in sqlite_job_operations.cpp.
#include "broker/ledger/sqlite_operations.hpp"

#include <algorithm>
#include <array>

#include "broker/ledger/refusals.hpp"
#include "schemas/base/hash.hpp"

namespace millrace::broker {
namespace {

#define LEASE_COLUMNS "SELECT lease, tenant, job, engine, until_us, alone FROM leases "

}  // namespace

SqliteOperations::SqliteOperations(Database& database, const Publish& publish,
                                   std::uint64_t max_queued_jobs)
    : database_(database),
      max_queued_jobs_(max_queued_jobs),
      records_(database, publish),
      renew_lease_(database, "UPDATE leases SET until_us = ?2 WHERE lease = ?1"),
      select_leases_(database, LEASE_COLUMNS "ORDER BY lease"),
      select_leases_until_(database, LEASE_COLUMNS "WHERE until_us <= ?1"),
      select_leases_of_engine_(database, LEASE_COLUMNS "WHERE engine = ?1"),
      select_due_(database,
                  "SELECT job FROM jobs WHERE tenant = ?1 AND deadline_us <= ?2 AND "
                  "deadline_us IS NOT NULL AND state < 2 ORDER BY deadline_us, sequence LIMIT ?3"),
      select_batch_(database,
                    "SELECT job FROM jobs WHERE tenant = ?1 AND batch = ?2 AND batch <> '' AND "
                    "state = ?3 AND sequence > ?4 AND NOT (state = 1 AND cancel) "
                    "ORDER BY sequence LIMIT ?5"),
      select_stream_(database, "SELECT first, high FROM streams WHERE tenant = ?1 AND stream = ?2"),
      list_streams_(database,
                    "SELECT stream, first, high FROM streams WHERE tenant = ?1 AND stream > ?2 "
                    "ORDER BY stream LIMIT ?3"),
      select_entries_(database,
                      "SELECT number, job, checksum, body FROM entries WHERE tenant = ?1 AND "
                      "stream = ?2 AND number >= ?3 ORDER BY number LIMIT ?4"),
      select_cursor_(database,
                     "SELECT number FROM cursors WHERE tenant = ?1 AND stream = ?2 AND "
                     "cursor = ?3"),
      set_cursor_(database,
                  "INSERT INTO cursors VALUES (?1, ?2, ?3, ?4) "
                  "ON CONFLICT DO UPDATE SET number = excluded.number"),
      delete_entries_(database,
                      "DELETE FROM entries WHERE tenant = ?1 AND stream = ?2 AND number < ?3"),
      set_first_(database, "UPDATE streams SET first = ?3 WHERE tenant = ?1 AND stream = ?2"),
      select_counts_(database,
                     "SELECT state, jobs FROM job_counts WHERE tenant = ?1 AND batch = ?2"),
      select_suspects_(database,
                       "SELECT q.model, q.kv, count(*), min(j.suspect_us) FROM queue q CROSS JOIN "
                       "jobs j ON j.tenant = q.tenant AND j.job = q.job WHERE q.tenant = ?1 AND "
                       "q.suspect = 1 GROUP BY q.model, q.kv ORDER BY q.model, q.kv") {}

#undef LEASE_COLUMNS

Result<Reply> SqliteOperations::carry_out(const Operation& operation, std::int64_t now_us) {
  now_us_ = now_us;
  return std::visit([this](const auto& op) { return carry_out(op); }, operation);
}

// ---- streams

Status SqliteOperations::read_entries(const ReadStream& op, std::uint64_t from,
                                      ReadStreamReply& reply) {
  std::uint64_t bytes = 0, expected = from;
  Statement& s = select_entries_;
  bool row = s.run(op.tenant, op.stream, from, op.max_entries);
  for (; row; row = s.next(), ++expected) {
    const auto number = static_cast<std::uint64_t>(s.integer(0));
    const std::string_view body = s.bytes(3);
    const bool sound =
        number == expected && static_cast<std::int64_t>(hash64(body, number)) == s.integer(2);
    if (!sound && !reply.entries.empty()) return {};  // the next read reports it
    if (!sound) {
      return fail(
          Code::ledger_corrupt,
          "entry " + std::to_string(expected) + " of stream '" + op.stream + "' is damaged on disk",
          "restore the ledger from a backup, or read on from the next number");
    }
    bytes += body.size();
    if (!reply.entries.empty() && bytes > op.max_bytes) return {};
    reply.entries.push_back({number, s.text(1), Body(body)});
  }
  if (database_.failed() || op.max_entries == 0 || !reply.entries.empty()) return {};
  return fail(Code::ledger_corrupt,
              "entry " + std::to_string(expected) + " of stream '" + op.stream + "' is missing",
              "restore the ledger from a backup");
}

Result<Reply> SqliteOperations::carry_out(const ReadStream& op) {
  const std::string& epoch = records_.epoch();
  if (!op.epoch.empty() && op.epoch != epoch) return refuse_epoch(op.stream, op.epoch, epoch);
  ReadStreamReply reply;
  reply.epoch = epoch;
  if (!select_stream_.run(op.tenant, op.stream)) return reply;
  reply.first = static_cast<std::uint64_t>(select_stream_.integer(0));
  reply.high = static_cast<std::uint64_t>(select_stream_.integer(1));
  std::uint64_t from = op.from;
  if (from == 0) {
    const bool known = select_cursor_.run(op.tenant, op.stream, op.cursor);
    from = known ? static_cast<std::uint64_t>(select_cursor_.integer(0)) + 1 : 1;
  }
  reply.trimmed = from < reply.first;
  if (reply.trimmed || from > reply.high) return reply;
  MILLRACE_TRY(read_entries(op, from, reply));
  return reply;
}

Result<Reply> SqliteOperations::carry_out(const ListStreams& op) {
  ListStreamsReply reply;
  reply.epoch = records_.epoch();
  Statement& s = list_streams_;
  for (bool row = s.run(op.tenant, op.after, op.max_streams); row; row = s.next()) {
    reply.streams.push_back({s.text(0), static_cast<std::uint64_t>(s.integer(1)),
                             static_cast<std::uint64_t>(s.integer(2))});
  }
  return reply;
}

Result<Reply> SqliteOperations::carry_out(const MoveCursor& op) {
  const bool known = select_stream_.run(op.tenant, op.stream);
  const auto high = known ? static_cast<std::uint64_t>(select_stream_.integer(1)) : 0;
  if (op.number > high) return refuse_past_end(op.stream, op.number, high);
  std::uint64_t number = 0;
  if (select_cursor_.run(op.tenant, op.stream, op.cursor)) {
    number = static_cast<std::uint64_t>(select_cursor_.integer(0));
  }
  if (op.number > number) {
    number = op.number;
    set_cursor_.run(op.tenant, op.stream, op.cursor, number);
  }
  return MoveCursorReply{number};
}

Result<Reply> SqliteOperations::carry_out(const TrimStream& op) {
  if (!select_stream_.run(op.tenant, op.stream)) return refuse_unknown_stream(op.stream);
  auto first = static_cast<std::uint64_t>(select_stream_.integer(0));
  const auto high = static_cast<std::uint64_t>(select_stream_.integer(1));
  if (op.first > high + 1) return refuse_past_end(op.stream, op.first, high);
  if (op.first <= first) return TrimReply{first, false};
  first = std::min(op.first, first + op.max_entries);
  delete_entries_.run(op.tenant, op.stream, first);
  set_first_.run(op.tenant, op.stream, first);
  return TrimReply{first, first < op.first};
}

Result<Reply> SqliteOperations::carry_out(const Append& op) {
  return records_.append(op.tenant, op.stream, op.job, op.body, JobState::failed);
}

// ---- reads

Result<Reply> SqliteOperations::carry_out(const GetJob& op) {
  const auto row = records_.find_job(op.tenant, op.job);
  if (!row) return refuse_unknown_job(op.job);
  GetJobReply reply;
  reply.state = row->state;
  reply.attempts = row->attempts;
  reply.failures = row->failures;
  reply.suspect = row->suspect_us.has_value();
  reply.cancel_requested = row->cancel_requested;
  reply.stream = row->stream;
  reply.batch = row->batch;
  reply.model = row->model;
  reply.kv = row->kv;
  reply.custom_id = row->custom_id;
  reply.number = row->number;
  reply.submitted_us = row->submitted_us;
  if (row->lease != 0) {
    reply.lease = row->lease;
    if (const auto lease = records_.find_lease(row->lease)) reply.engine = lease->engine;
  }
  return reply;
}

Result<Reply> SqliteOperations::carry_out(const Count& op) {
  records_.flush();
  std::array<std::uint64_t, 6> counts{};
  Statement& s = select_counts_;
  for (bool row = s.run(op.tenant, op.batch); row; row = s.next()) {
    const auto state = static_cast<std::size_t>(s.integer(0));
    if (state < counts.size()) counts[state] = static_cast<std::uint64_t>(s.integer(1));
  }
  CountReply reply;
  reply.counts = {counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]};
  Statement& queues = select_suspects_;
  for (bool row = queues.run(op.tenant); row; row = queues.next()) {
    reply.suspects.push_back({queues.text(0), queues.text(1),
                              static_cast<std::uint64_t>(queues.integer(2)), queues.integer(3)});
  }
  return reply;
}

}  // namespace millrace::broker
