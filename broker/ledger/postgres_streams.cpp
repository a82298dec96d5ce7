// Streams, their entries and cursors.
#include "broker/ledger/body_checksum.hpp"
#include "broker/ledger/postgres_records.hpp"

namespace millrace::broker {

#define MILLRACE_POSTGRES_STREAM \
  "s.first, s.high, s.oldest, s.bytes, s.age_us, s.max_bytes, s.cursor_age_us"

StreamRecord PostgresRecords::read_stream(const PostgresRows& rows, int row) {
  StreamRecord out{
      rows.number(row, 0), rows.number(row, 1), rows.number(row, 2), rows.number(row, 3), {}};
  out.set.age_us = rows.optional_integer(row, 4);
  if (!rows.null(row, 5)) out.set.bytes = rows.number(row, 5);
  out.set.cursor_age_us = rows.optional_integer(row, 6);
  return out;
}

// The record of a stream, read once in a transaction. Null: there is no such stream.
PostgresRecords::KeptStream* PostgresRecords::kept_stream(const std::string& tenant,
                                                          const std::string& stream) {
  const Key key(tenant, stream);
  if (!streams_.contains(key)) {
    ExpectedRecords expected;
    expected.streams.insert(key);
    expect(expected);
  }
  KeptStream& kept = streams_[key];
  return kept.exists && status() ? &kept : nullptr;
}

std::optional<StreamRecord> PostgresRecords::find_stream(const std::string& tenant,
                                                         const std::string& stream) {
  const KeptStream* kept = kept_stream(tenant, stream);
  if (kept == nullptr) return std::nullopt;
  return kept->record;
}

void PostgresRecords::update_stream(const std::string& tenant, const std::string& stream,
                                    const StreamRecord& record) {
  own(tenant);
  streams_[{tenant, stream}] = {record, true, true};
}

std::uint64_t PostgresRecords::next_number(const std::string& tenant, const std::string& stream,
                                           std::uint64_t bytes) {
  KeptStream* kept = kept_stream(tenant, stream);
  if (kept == nullptr) kept = &streams_[{tenant, stream}];
  kept->exists = kept->changed = true;
  kept->record.bytes += bytes;
  return ++kept->record.high;
}

void PostgresRecords::insert_entry(const std::string& tenant, const std::string& stream,
                                   std::uint64_t number, const std::string& job, const Body& body,
                                   std::int64_t written_us) {
  new_entries_.tenants.add(tenant);
  new_entries_.streams.add(stream);
  new_entries_.numbers.add(number);
  new_entries_.jobs.add(job);
  new_entries_.checksums.add(checksum(body, number));
  new_entries_.bodies.add(body);
  new_entries_.written.add(written_us);
}

void PostgresRecords::scan_entries(const std::string& tenant, const std::string& stream,
                                   std::uint64_t from, std::uint64_t max_entries,
                                   const EntryVisitor& visit) {
  own(tenant);
  flush_entries();
  constexpr std::uint64_t page_bytes = 1 << 20;
  while (max_entries > 0) {
    // The bytes that come before an entry decide whether its body comes: the first one always does.
    const auto rows = connection_.ask(
        "SELECT number, job, checksum, body FROM (SELECT e.number, e.job, e.checksum, e.body, "
        "coalesce(sum(octet_length(e.body)) OVER (ORDER BY e.number ROWS BETWEEN UNBOUNDED "
        "PRECEDING AND 1 PRECEDING), 0) AS before FROM (SELECT * FROM @.entries WHERE tenant = $1 "
        "AND stream = $2 AND number >= $3 ORDER BY number LIMIT $4) e) p WHERE before <= $5 "
        "ORDER BY number",
        tenant, stream, from, std::min<std::uint64_t>(max_entries, 256), page_bytes);
    for (int row = 0; row < rows.size(); ++row) {
      const std::uint64_t number = rows.number(row, 0);
      const std::string_view body = rows.bytes(row, 3);
      const bool sound = checksum(body, number) == rows.integer(row, 2);
      if (!visit({number, rows.text(row, 1), body, sound})) return;
      from = number + 1;
      --max_entries;
    }
    if (rows.size() == 0) return;
  }
}

void PostgresRecords::scan_oldest(const std::string& tenant, const std::string& stream,
                                  std::uint64_t max_entries, const SizeVisitor& visit) {
  const KeptStream* kept = kept_stream(tenant, stream);
  if (kept == nullptr) return;
  flush_entries();
  const auto rows = connection_.ask(
      "SELECT number, octet_length(body)::bigint, written_us FROM @.entries WHERE tenant = $1 AND "
      "stream = $2 AND number >= $3 ORDER BY number LIMIT $4",
      tenant, stream, kept->record.oldest, max_entries);
  for (int row = 0; row < rows.size(); ++row) {
    if (!visit({rows.number(row, 0), rows.number(row, 1), rows.integer(row, 2)})) break;
  }
}

void PostgresRecords::delete_entries(const std::string& tenant, const std::string& stream,
                                     std::uint64_t below) {
  own(tenant);
  flush_entries();
  connection_.send("DELETE FROM @.entries WHERE tenant = $1 AND stream = $2 AND number < $3",
                   tenant, stream, below);
}

std::vector<StreamInfo> PostgresRecords::list_streams(const std::string& tenant,
                                                      const std::string& after,
                                                      std::uint64_t max_streams) {
  own(tenant);
  flush_streams();
  const auto rows =
      connection_.ask("SELECT " MILLRACE_POSTGRES_STREAM
                      ", s.stream, (SELECT count(*) FROM @.cursors c WHERE c.tenant = s.tenant AND "
                      "c.stream = s.stream) FROM @.streams s WHERE s.tenant = $1 AND s.stream > $2 "
                      "ORDER BY s.stream LIMIT $3",
                      tenant, after, max_streams);
  std::vector<StreamInfo> out;
  for (int row = 0; row < rows.size(); ++row) {
    const StreamRecord record = read_stream(rows, row);
    out.push_back({rows.text(row, 7), record.first, record.high, record.bytes, rows.number(row, 8),
                   record.set});
  }
  return out;
}

std::optional<StreamPlace> PostgresRecords::next_stream(const StreamPlace& after) {
  flush_streams();
  const auto rows = connection_.ask(
      "SELECT tenant, stream FROM @.streams WHERE (tenant, stream) > ($1, $2) "
      "ORDER BY tenant, stream LIMIT 1",
      after.tenant, after.stream);
  if (rows.size() == 0) return std::nullopt;
  return StreamPlace{rows.text(0, 0), rows.text(0, 1)};
}

#undef MILLRACE_POSTGRES_STREAM

// ---- cursors

std::optional<CursorInfo> PostgresRecords::find_cursor(const std::string& tenant,
                                                       const std::string& stream,
                                                       const std::string& cursor) {
  own(tenant);
  const auto rows = connection_.ask(
      "SELECT number, moved_us FROM @.cursors WHERE tenant = $1 AND stream = $2 AND cursor = $3",
      tenant, stream, cursor);
  if (rows.size() == 0) return std::nullopt;
  return CursorInfo{cursor, rows.number(0, 0), rows.integer(0, 1)};
}

void PostgresRecords::set_cursor(const std::string& tenant, const std::string& stream,
                                 const CursorInfo& cursor) {
  own(tenant);
  connection_.send(
      "INSERT INTO @.cursors VALUES ($1, $2, $3, $4, $5) ON CONFLICT (tenant, stream, cursor) DO "
      "UPDATE SET number = excluded.number, moved_us = excluded.moved_us",
      tenant, stream, cursor.cursor, cursor.number, cursor.moved_us);
}

void PostgresRecords::delete_cursor(const std::string& tenant, const std::string& stream,
                                    const std::string& cursor) {
  own(tenant);
  connection_.send("DELETE FROM @.cursors WHERE tenant = $1 AND stream = $2 AND cursor = $3",
                   tenant, stream, cursor);
}

std::vector<CursorInfo> PostgresRecords::list_cursors(const std::string& tenant,
                                                      const std::string& stream) {
  own(tenant);
  const auto rows = connection_.ask(
      "SELECT cursor, number, moved_us FROM @.cursors WHERE tenant = $1 AND stream = $2 "
      "ORDER BY cursor",
      tenant, stream);
  std::vector<CursorInfo> out;
  for (int row = 0; row < rows.size(); ++row) {
    out.push_back({rows.text(row, 0), rows.number(row, 1), rows.integer(row, 2)});
  }
  return out;
}

}  // namespace millrace::broker
