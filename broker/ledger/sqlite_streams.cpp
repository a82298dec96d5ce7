// Streams, their entries and cursors.
#include "broker/ledger/sqlite_checksum.hpp"
#include "broker/ledger/sqlite_records.hpp"

namespace millrace::broker {

namespace {

std::uint64_t number(const Statement& row, int column) {
  return static_cast<std::uint64_t>(row.integer(column));
}

// Reads the first seven columns.
StreamRecord read_stream(const Statement& row) {
  StreamRecord out{number(row, 0), number(row, 1), number(row, 2), number(row, 3), {}};
  out.set.age_us = row.optional_integer(4);
  if (!row.null(5)) out.set.bytes = number(row, 5);
  out.set.cursor_age_us = row.optional_integer(6);
  return out;
}

}  // namespace

// The record of a stream, read once in a transaction. Null: there is no such stream.
SqliteRecords::KeptStream* SqliteRecords::kept_stream(const std::string& tenant,
                                                      const std::string& stream) {
  std::pair<std::string, std::string> key(tenant, stream);
  if (const auto it = streams_.find(key); it != streams_.end()) return &it->second;
  if (!select_stream_.run(tenant, stream)) return nullptr;
  return &streams_.emplace(std::move(key), KeptStream{read_stream(select_stream_)}).first->second;
}

void SqliteRecords::flush_streams() {
  for (auto& [key, kept] : streams_) {
    if (!std::exchange(kept.changed, false)) continue;
    const StreamRecord& r = kept.record;
    insert_stream_.run(r.first, r.high, r.oldest, r.bytes, r.set.age_us, r.set.bytes,
                       r.set.cursor_age_us, key.first, key.second);
  }
}

std::optional<StreamRecord> SqliteRecords::find_stream(const std::string& tenant,
                                                       const std::string& stream) {
  const KeptStream* kept = kept_stream(tenant, stream);
  if (kept == nullptr) return std::nullopt;
  return kept->record;
}

void SqliteRecords::update_stream(const std::string& tenant, const std::string& stream,
                                  const StreamRecord& record) {
  streams_[{tenant, stream}] = {record, true};
}

std::uint64_t SqliteRecords::next_number(const std::string& tenant, const std::string& stream,
                                         std::uint64_t bytes) {
  KeptStream* kept = kept_stream(tenant, stream);
  if (kept == nullptr) kept = &streams_[{tenant, stream}];
  kept->changed = true;
  kept->record.bytes += bytes;
  return ++kept->record.high;
}

void SqliteRecords::insert_entry(const std::string& tenant, const std::string& stream,
                                 std::uint64_t number, const std::string& job, const Body& body,
                                 std::int64_t written_us) {
  insert_entry_.run(tenant, stream, number, job, checksum(body, number), Blob{body}, written_us);
}

void SqliteRecords::scan_entries(const std::string& tenant, const std::string& stream,
                                 std::uint64_t from, std::uint64_t max_entries,
                                 const EntryVisitor& visit) {
  Statement& s = select_entries_;
  bool row = s.run(tenant, stream, from, max_entries);
  for (; row; row = s.next()) {
    const auto number = static_cast<std::uint64_t>(s.integer(0));
    const std::string_view body = s.bytes(3);
    const bool sound = checksum(body, number) == s.integer(2);
    if (!visit({number, s.text(1), body, sound})) return;
  }
}

void SqliteRecords::scan_oldest(const std::string& tenant, const std::string& stream,
                                std::uint64_t max_entries, const SizeVisitor& visit) {
  const KeptStream* kept = kept_stream(tenant, stream);
  if (kept == nullptr) return;
  Statement& s = select_sizes_;
  bool row = s.run(tenant, stream, kept->record.oldest, max_entries);
  for (; row; row = s.next()) {
    if (!visit({number(s, 0), number(s, 1), s.integer(2)})) break;
  }
  database_.reset_statements();  // a half-read one would see what is deleted next
}

void SqliteRecords::delete_entries(const std::string& tenant, const std::string& stream,
                                   std::uint64_t below) {
  delete_entries_.run(tenant, stream, below);
}

std::vector<StreamInfo> SqliteRecords::list_streams(const std::string& tenant,
                                                    const std::string& after,
                                                    std::uint64_t max_streams) {
  flush_streams();
  std::vector<StreamInfo> out;
  Statement& s = list_streams_;
  for (bool row = s.run(tenant, after, max_streams); row; row = s.next()) {
    const StreamRecord record = read_stream(s);
    out.push_back({s.text(7), record.first, record.high, record.bytes, number(s, 8), record.set});
  }
  return out;
}

std::optional<StreamPlace> SqliteRecords::next_stream(const StreamPlace& after) {
  flush_streams();
  if (!next_stream_.run(after.tenant, after.stream)) return std::nullopt;
  return StreamPlace{next_stream_.text(0), next_stream_.text(1)};
}

// ---- cursors

std::optional<CursorInfo> SqliteRecords::find_cursor(const std::string& tenant,
                                                     const std::string& stream,
                                                     const std::string& cursor) {
  if (!select_cursor_.run(tenant, stream, cursor)) return std::nullopt;
  return CursorInfo{cursor, number(select_cursor_, 0), select_cursor_.integer(1)};
}

void SqliteRecords::set_cursor(const std::string& tenant, const std::string& stream,
                               const CursorInfo& cursor) {
  set_cursor_.run(tenant, stream, cursor.cursor, cursor.number, cursor.moved_us);
}

void SqliteRecords::delete_cursor(const std::string& tenant, const std::string& stream,
                                  const std::string& cursor) {
  delete_cursor_.run(tenant, stream, cursor);
}

std::vector<CursorInfo> SqliteRecords::list_cursors(const std::string& tenant,
                                                    const std::string& stream) {
  std::vector<CursorInfo> out;
  Statement& s = list_cursors_;
  for (bool row = s.run(tenant, stream); row; row = s.next()) {
    out.push_back({s.text(0), number(s, 1), s.integer(2)});
  }
  return out;
}

}  // namespace millrace::broker
