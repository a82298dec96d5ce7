#pragma once
// What one engine sees of a store that it shares with others: which segments of its kind there are,
// each told once, and whether what a file holds is what it should. It also keeps the store's bound.
// Every engine does that for itself from a listing of its own, so a file may be removed twice, and
// while engines write at once the store may hold a file more for each of them.
//
// A file that is damaged, or holds something else than its name says, is never used: a warning is
// logged and the file is removed. One that is gone is a miss, without a warning: that is how the
// bound is kept.
// Errors: those of the store itself. Thread safety: one thread.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/core/prefix/segment_store.hpp"

namespace millrace::engine {

class StoreView {
 public:
  // The store must outlive this. The limit is that of the files of all kinds together.
  StoreView(SegmentStore& store, const PageKind& kind, std::uint64_t most_bytes);

  // Lists the store, and removes files until `coming` bytes more fit, but none of `kept`. Returns
  // the segments of this engine that have gone since the last time.
  Result<std::vector<std::string>> refresh(std::uint64_t coming = 0,
                                           const std::set<std::string>& kept = {});
  // The last listing, of all kinds.
  std::size_t files() const { return listed_.size(); }
  std::uint64_t bytes() const { return bytes_; }

  // Files of this engine's kind that were listed and whose headers were not read yet.
  std::size_t unread() const { return unread_.size(); }
  // Reads the header of the one used last. None: it holds no segment of this engine.
  Result<std::optional<Segment>> read_header();

  // Reads and checks `count` items of a segment from item `skip` on. None: the file is gone, or
  // damaged and now removed.
  Result<std::optional<std::vector<char>>> load(const Segment& segment, std::uint32_t skip,
                                                std::uint32_t count);
  // Writes a segment, unless another engine has. False: others needed the room.
  Result<bool> save(const Segment& segment, std::span<const char> items);
  void touch(const std::string& name);

 private:
  void refuse(const std::string& name, const Error& error);
  void make_room(std::uint64_t coming, const std::set<std::string>& kept);

  SegmentStore* store_;
  PageKind kind_;
  std::string kind_name_;
  std::uint64_t most_bytes_;
  std::vector<StoredFile> listed_;  // in the order in which they go
  std::uint64_t bytes_ = 0;
  std::set<std::string> known_;        // of this kind: told, or in unread_
  std::deque<std::string> unread_;     // in the order in which they go: the last is read first
  std::map<std::string, int> faults_;  // names that could not be read, and how often
  bool told_unremovable_ = false;
};

}  // namespace millrace::engine
