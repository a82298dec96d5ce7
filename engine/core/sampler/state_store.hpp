#pragma once
// The row states on the device: one buffer, a block for each slot whose row asked for edits; none
// for the others, and no buffer until the first one. A block is written when a sequence takes its
// slot, and lives until another takes it over. Errors: device_error, out_of_memory; internal, where
// a sequence's tokens are not known. Thread safety: the device's owner thread.
#include <cstdint>
#include <map>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/sampler/row_state.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// A draw of an edited row.
struct StateRequest {
  std::uint64_t sequence = 0;  // never used twice
  std::uint32_t slot = 0;
  std::uint32_t position = 0;  // of the token to draw
  const LogitEdits* edits = nullptr;
  RowHistory history;  // all tokens before `position`, unless the draw before this was in this slot
  bool log = false;
};

struct PlacedState {
  std::uint32_t offset = 0;  // in words
  bool absorb = false;       // it lacks the last token, which the slot holds
};

class StateStore {
 public:
  explicit StateStore(Device& device) : device_(&device) {}

  Result<PlacedState> place(const StateRequest& request);
  // Another sequence draws in a slot: what the slot's block said of its last token is void.
  void other_draw(std::uint32_t slot, std::uint64_t sequence);

  const Buffer& buffer() const { return buffer_; }
  std::uint64_t bytes() const { return buffer_.size_bytes(); }
  // The words of a slot's block as the device has them, scratch left out; none without a block.
  Result<std::vector<std::uint32_t>> read(std::uint32_t slot) const;

 private:
  struct Block {
    std::uint64_t sequence = 0;
    std::uint32_t position = 0;  // of the next draw
    std::uint32_t offset = 0, kept = 0, size = 0;
  };
  Result<std::uint32_t> take(std::uint32_t words);
  Status grow(std::uint32_t words);
  void release(const Block& block);

  Device* device_;
  Buffer buffer_;
  std::uint32_t size_ = 0;                       // words
  std::map<std::uint32_t, std::uint32_t> free_;  // size by offset, neighbours joined
  std::map<std::uint32_t, Block> blocks_;        // by slot
};

}  // namespace millrace::engine
