// Streams, their entries and cursors.
#include <iterator>

#include "broker/ledger/memory_records.hpp"

namespace millrace::broker {

std::optional<StreamRecord> MemoryRecords::find_stream(const std::string& tenant,
                                                       const std::string& stream) {
  const auto it = streams_.find({tenant, stream});
  if (it == streams_.end()) return std::nullopt;
  return it->second.record;
}

void MemoryRecords::update_stream(const std::string& tenant, const std::string& stream,
                                  const StreamRecord& record) {
  const Key key(tenant, stream);
  note_undo([this, key, before = find_stream(tenant, stream)] {
    if (before) {
      streams_[key].record = *before;
    } else {
      streams_.erase(key);
    }
  });
  streams_[key].record = record;
}

std::uint64_t MemoryRecords::next_number(const std::string& tenant, const std::string& stream,
                                         std::uint64_t bytes) {
  StreamRecord record = find_stream(tenant, stream).value_or(StreamRecord{});
  record.bytes += bytes;
  ++record.high;
  update_stream(tenant, stream, record);
  return record.high;
}

void MemoryRecords::insert_entry(const std::string& tenant, const std::string& stream,
                                 std::uint64_t number, const std::string& job, const Body& body,
                                 std::int64_t written_us) {
  Stream& to = streams_[{tenant, stream}];
  to.entries.push_back({{number, job, body}, written_us});
  note_undo([&to] { to.entries.pop_back(); });
}

void MemoryRecords::scan_entries(const std::string& tenant, const std::string& stream,
                                 std::uint64_t from, std::uint64_t max_entries,
                                 const EntryVisitor& visit) {
  const auto it = streams_.find({tenant, stream});
  if (it == streams_.end() || it->second.entries.empty()) return;
  const auto& entries = it->second.entries;
  const std::uint64_t oldest = entries.front().entry.number;
  if (from < oldest) return;
  const std::size_t first = from - oldest;
  for (std::size_t i = first; i < entries.size() && i - first < max_entries; ++i) {
    const Entry& entry = entries[i].entry;
    if (!visit({entry.number, entry.job, entry.body, true})) return;
  }
}

void MemoryRecords::scan_oldest(const std::string& tenant, const std::string& stream,
                                std::uint64_t max_entries, const SizeVisitor& visit) {
  const auto it = streams_.find({tenant, stream});
  if (it == streams_.end()) return;
  for (const KeptEntry& kept : it->second.entries) {
    if (max_entries-- == 0) return;
    if (!visit({kept.entry.number, kept.entry.body.size(), kept.written_us})) return;
  }
}

void MemoryRecords::delete_entries(const std::string& tenant, const std::string& stream,
                                   std::uint64_t below) {
  const auto it = streams_.find({tenant, stream});
  if (it == streams_.end()) return;
  auto& entries = it->second.entries;
  std::vector<KeptEntry> gone;
  while (!entries.empty() && entries.front().entry.number < below) {
    gone.push_back(std::move(entries.front()));
    entries.pop_front();
  }
  note_undo([&entries, gone = std::move(gone)] {
    entries.insert(entries.begin(), gone.begin(), gone.end());
  });
}

std::vector<StreamInfo> MemoryRecords::list_streams(const std::string& tenant,
                                                    const std::string& after,
                                                    std::uint64_t max_streams) {
  std::vector<StreamInfo> out;
  for (auto it = streams_.upper_bound({tenant, after});
       it != streams_.end() && it->first.first == tenant && out.size() < max_streams; ++it) {
    const StreamRecord& record = it->second.record;
    out.push_back({it->first.second, record.first, record.high, record.bytes,
                   it->second.cursors.size(), record.set});
  }
  return out;
}

std::optional<StreamPlace> MemoryRecords::next_stream(const StreamPlace& after) {
  const auto it = streams_.upper_bound({after.tenant, after.stream});
  if (it == streams_.end()) return std::nullopt;
  return StreamPlace{it->first.first, it->first.second};
}

// ---- cursors

std::optional<CursorInfo> MemoryRecords::find_cursor(const std::string& tenant,
                                                     const std::string& stream,
                                                     const std::string& cursor) {
  const auto it = streams_.find({tenant, stream});
  if (it == streams_.end()) return std::nullopt;
  const auto found = it->second.cursors.find(cursor);
  if (found == it->second.cursors.end()) return std::nullopt;
  return found->second;
}

void MemoryRecords::set_cursor(const std::string& tenant, const std::string& stream,
                               const CursorInfo& cursor) {
  auto& cursors = streams_[{tenant, stream}].cursors;
  note_undo([&cursors, name = cursor.cursor, before = find_cursor(tenant, stream, cursor.cursor)] {
    cursors.erase(name);
    if (before) cursors[name] = *before;
  });
  cursors[cursor.cursor] = cursor;
}

void MemoryRecords::delete_cursor(const std::string& tenant, const std::string& stream,
                                  const std::string& cursor) {
  auto& cursors = streams_[{tenant, stream}].cursors;
  auto gone = cursors.extract(cursor);
  if (gone.empty()) return;
  note_undo([&cursors, before = gone.mapped()] { cursors[before.cursor] = before; });
}

std::vector<CursorInfo> MemoryRecords::list_cursors(const std::string& tenant,
                                                    const std::string& stream) {
  std::vector<CursorInfo> out;
  const auto it = streams_.find({tenant, stream});
  if (it == streams_.end()) return out;
  for (const auto& [name, cursor] : it->second.cursors) out.push_back(cursor);
  return out;
}

}  // namespace millrace::broker
