#pragma once
// The page pools of a model's cache groups, and a sequence's page tables in them, on the host.
//
// Layers whose attention sees the same positions form a cache group, with a pool of its own:
//
//   group 0     keeps all positions of a sequence: [page 0][page 1][page 2] ... [page n]
//   windowed    keeps those that a later token may see:            [page n-2] ... [page n]
//
// A token at position p of a group with window w sees positions p - w + 1 to p. So pages before the
// page of p - w + 1 are given up once no position up to p is left to compute; see
// SequencePages::forget_before.
//
// The recurrent layers of a model have one more pool, of states: a page of it is the states of all
// these layers after some token, whatever its position (sequence_states.hpp). Thread safety: one
// owner thread.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/kv/page_pool.hpp"
#include "engine/core/kv/sequence_states.hpp"

namespace millrace::engine {

struct PoolSize {
  std::uint32_t pages = 0;
  std::uint32_t window = 0;      // 0 for the first group and for states, and only for them
  bool states = false;           // the last one may be
  std::uint64_t page_bytes = 0;  // of one page in the layers of the group; 0: not of interest
};

// The first page of which a token at `position`, or a later one, sees anything.
inline std::uint32_t first_seen_page(std::uint32_t position, std::uint32_t window,
                                     std::uint32_t page_tokens) {
  return window == 0 || position < window ? 0 : (position - window + 1) / page_tokens;
}

// The most positions that a sequence has in pages of a windowed group at once. Rows of one step are
// planned while those of the step before run, and a sequence that is paused goes on from its last
// whole page that has come back: so it keeps two rows of up to `row_tokens`, and two parts of pages
// at the ends.
inline std::uint64_t most_window_positions(std::uint32_t window, std::uint32_t row_tokens,
                                           std::uint32_t page_tokens) {
  return std::uint64_t{window} + 2ull * row_tokens + 2ull * page_tokens;
}

class CachePools {
 public:
  // `row_tokens`: the most tokens of one sequence in a step.
  CachePools(std::uint32_t page_tokens, std::span<const PoolSize> groups, std::uint32_t row_tokens);
  CachePools(const CachePools&) = delete;
  CachePools& operator=(const CachePools&) = delete;

  // The cache groups, and all pools: the states' pool is the last one, if there is one.
  std::size_t groups() const { return pools_.size() - (has_states_ ? 1 : 0); }
  std::size_t pools() const { return pools_.size(); }
  bool has_states() const { return has_states_; }
  PagePool* states() { return has_states_ ? &pools_.back() : nullptr; }
  PagePool& operator[](std::size_t group) { return pools_[group]; }
  const PagePool& operator[](std::size_t group) const { return pools_[group]; }
  std::uint32_t window(std::size_t group) const { return windows_[group]; }
  std::uint32_t page_tokens() const { return pools_.front().page_tokens(); }
  std::uint32_t row_tokens() const { return row_tokens_; }

  std::uint32_t first_page(std::size_t group, std::uint32_t position) const {
    return first_seen_page(position, windows_[group], page_tokens());
  }
  // The most pages that a sequence of so many positions holds in the group at once, if its rows
  // have up to `row_tokens` tokens.
  std::uint64_t most_pages(std::size_t group, std::uint64_t positions,
                           std::uint32_t row_tokens) const;
  // The positions of the longest sequence that fits when it is alone.
  std::uint64_t most_positions() const;
  // Sums over all cache groups.
  std::uint64_t total() const;
  std::uint64_t in_use() const;  // pages that sequences hold
  std::uint64_t bytes() const;
  std::uint64_t bytes_in_use() const;
  // In the first group, which keeps all positions.
  std::uint64_t tokens() const { return std::uint64_t{pools_.front().total()} * page_tokens(); }
  std::uint64_t tokens_in_use() const;
  void dump(std::ostream& out) const;

 private:
  std::vector<PagePool> pools_;
  std::vector<std::uint32_t> windows_;
  std::vector<std::uint64_t> page_bytes_;
  std::uint32_t row_tokens_;
  bool has_states_ = false;
};

// The pages of one sequence, by group, and its states.
class SequencePages {
 public:
  explicit SequencePages(CachePools& pools);

  std::size_t groups() const { return tables_.size(); }
  PageTable& operator[](std::size_t group) { return tables_[group]; }
  const PageTable& operator[](std::size_t group) const { return tables_[group]; }
  SequenceStates& states() { return states_; }
  const SequenceStates& states() const { return states_; }
  // All pages that the sequence holds of a pool.
  std::vector<PageId> held(std::size_t pool) const;
  // Gives up the pages that no token from `position` on sees.
  void forget_before(std::uint32_t position);
  void clear();

 private:
  CachePools* pools_;
  std::vector<PageTable> tables_;
  SequenceStates states_;
};

}  // namespace millrace::engine
