#pragma once
// Remembers which custom ids a file has used, and on which line first. Holds a 64-bit hash and a
// line number for each (at most 48 bytes a line), never the text. A collision of hashes costs a
// wrong warning and happens once in 10^8 files of a million lines. Thread safety: one thread.
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace millrace::client {

class CustomIds {
 public:
  // Returns the line that used this id first, if that is another line.
  std::optional<std::uint64_t> add(std::string_view custom_id, std::uint64_t line);

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint64_t line = 0;  // 0: free
  };
  void grow();

  std::vector<Slot> slots_;  // open addressing; size is a power of two
  std::size_t used_ = 0;
};

}  // namespace millrace::client
