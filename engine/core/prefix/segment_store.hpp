#pragma once
// A store of segment files that several engines share: a folder, or a bucket of objects. Nothing is
// locked: a file appears whole under its name or not at all, and any engine may remove any file at
// any time. So a reader may find that a file is gone, which is a miss.
//
// Names: `KIND-PATH-PAGE.kv`, three numbers in hex. KIND (32 digits) is a hash of the format and of
// the PageKind, which names model, KV policy, math, device, driver and kernels; PATH (32) of the
// segment's tokens and pages; PAGE (8) its first page. So two engines that compute the same segment
// give it the same name, and an engine sees from a name whether a file is of its own kind. A name
// proves nothing: what the file holds is compared with what is wanted (segment.hpp).
// Errors: io_error, disk_full, and not_found where a file is absent. Thread safety: one thread, but
// for `give_up`.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/prefix/segment.hpp"

namespace millrace::engine {

struct StoredFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::int64_t used_s = 0;  // when it was written or touched last, by the store's own clock
};

class SegmentStore {
 public:
  virtual ~SegmentStore() = default;
  // The files of engines, of all kinds, also those that are being written; no other files.
  virtual Result<std::vector<StoredFile>> list() = 0;
  // Returns the number of bytes read, which is smaller than asked only at the end of the file.
  virtual Result<std::size_t> read(const std::string& name, std::uint64_t offset,
                                   std::span<char> into) = 0;
  // not_found: another engine has removed what was half written, to make room.
  virtual Status write(const std::string& name, std::string_view content) = 0;
  virtual Status remove(const std::string& name) = 0;
  virtual Status touch(const std::string& name) = 0;             // sets `used_s` to now
  virtual std::string place(const std::string& name) const = 0;  // of a file, for messages
  virtual std::string place() const = 0;                         // of the store
  // From now on calls fail soon, as far as the store can do that. Any thread.
  virtual void give_up() {}
};

// The part of a name that is the same for all files of a kind.
std::string kind_name(const PageKind& kind);
std::string segment_name(const Segment& segment);
bool is_segment_name(std::string_view name);  // of whatever kind
// The order in which files are removed: first those used longest ago, and of those used in the same
// second the ends of paths, then their beginnings, then what is being written.
bool goes_before(const StoredFile& a, const StoredFile& b);

}  // namespace millrace::engine
