#pragma once
// The row states on the device: one buffer with a block for each slot whose row has edits. The
// buffer is allocated for the first of them. A block is written when a sequence takes its slot, and
// stays until another sequence with edits takes that slot. Errors: device_error, out_of_memory;
// internal if a sequence's tokens are not known. Thread safety: the device's owner thread.
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
  RowHistory history;  // all tokens before `position`; unused if the slot drew the previous one
  bool log = false;
};

struct PlacedState {
  std::uint32_t offset = 0;  // in words
  bool absorb = false;       // the state lacks the last token, which is in the slot
};

class StateStore {
 public:
  explicit StateStore(Device& device) : device_(&device) {}

  Result<PlacedState> place(const StateRequest& request);
  // Says that another sequence draws in a slot, so that the slot's id no longer belongs to its
  // block.
  void other_draw(std::uint32_t slot, std::uint64_t sequence);

  const Buffer& buffer() const { return buffer_; }
  std::uint64_t bytes() const { return buffer_.size_bytes(); }
  // Reads the words of a slot's block from the device, without scratch; none if there is no block.
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
  std::map<std::uint32_t, std::uint32_t> free_;  // size by offset; adjacent ones are joined
  std::map<std::uint32_t, Block> blocks_;        // by slot
};

}  // namespace millrace::engine
