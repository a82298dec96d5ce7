// Streams, their entries and cursors.
#include "broker/ledger/sqlite_checksum.hpp"
#include "broker/ledger/sqlite_records.hpp"

namespace millrace::broker {

// The numbers of a stream, read once in a transaction. Null: there is no such stream.
SqliteRecords::KeptStream* SqliteRecords::kept_stream(const std::string& tenant,
                                                      const std::string& stream) {
  std::pair<std::string, std::string> key(tenant, stream);
  if (const auto it = streams_.find(key); it != streams_.end()) return &it->second;
  if (!select_stream_.run(tenant, stream)) return nullptr;
  const StreamRecord numbers{static_cast<std::uint64_t>(select_stream_.integer(0)),
                             static_cast<std::uint64_t>(select_stream_.integer(1))};
  return &streams_.emplace(std::move(key), KeptStream{numbers}).first->second;
}

void SqliteRecords::flush_streams() {
  for (auto& [key, kept] : streams_) {
    if (!std::exchange(kept.changed, false)) continue;
    insert_stream_.run(key.first, key.second, kept.numbers.first, kept.numbers.high);
  }
}

std::optional<StreamRecord> SqliteRecords::find_stream(const std::string& tenant,
                                                       const std::string& stream) {
  const KeptStream* kept = kept_stream(tenant, stream);
  if (kept == nullptr) return std::nullopt;
  return kept->numbers;
}

std::uint64_t SqliteRecords::next_number(const std::string& tenant, const std::string& stream) {
  KeptStream* kept = kept_stream(tenant, stream);
  if (kept == nullptr) kept = &streams_[{tenant, stream}];
  kept->changed = true;
  return ++kept->numbers.high;
}

void SqliteRecords::insert_entry(const std::string& tenant, const std::string& stream,
                                 std::uint64_t number, const std::string& job, const Body& body) {
  insert_entry_.run(tenant, stream, number, job, checksum(body, number), Blob{body});
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

void SqliteRecords::trim_stream(const std::string& tenant, const std::string& stream,
                                std::uint64_t first) {
  KeptStream* kept = kept_stream(tenant, stream);
  if (kept == nullptr) return;
  delete_entries_.run(tenant, stream, first);
  kept->numbers.first = first;
  kept->changed = true;
}

std::vector<StreamInfo> SqliteRecords::list_streams(const std::string& tenant,
                                                    const std::string& after,
                                                    std::uint64_t max_streams) {
  flush_streams();
  std::vector<StreamInfo> out;
  Statement& s = list_streams_;
  for (bool row = s.run(tenant, after, max_streams); row; row = s.next()) {
    out.push_back({s.text(0), static_cast<std::uint64_t>(s.integer(1)),
                   static_cast<std::uint64_t>(s.integer(2))});
  }
  return out;
}

std::optional<std::uint64_t> SqliteRecords::find_cursor(const std::string& tenant,
                                                        const std::string& stream,
                                                        const std::string& cursor) {
  if (!select_cursor_.run(tenant, stream, cursor)) return std::nullopt;
  return static_cast<std::uint64_t>(select_cursor_.integer(0));
}

void SqliteRecords::set_cursor(const std::string& tenant, const std::string& stream,
                               const std::string& cursor, std::uint64_t number) {
  set_cursor_.run(tenant, stream, cursor, number);
}

}  // namespace millrace::broker
