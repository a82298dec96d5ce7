#pragma once
// The states of one sequence's recurrent layers, on the host: pages of a pool of their own, each
// with the states of all layers after some token. A row of a step reads the page that the row
// before it wrote, and writes to the same one. At a chosen border of pages the state stays as it
// is instead, and the next row writes to another page; the prefix tree takes the state that stayed,
// and sequences with the same beginning go on from it. So no state is ever copied.
//
//   rows        0 to 96      96 to 160      160 to 256
//   reads       nothing      page 4         page 4
//   writes      page 4       page 4, kept   page 7
//
// Thread safety: the pool's owner thread.
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "engine/core/kv/page_pool.hpp"

namespace millrace::engine {

class SequenceStates {
 public:
  // Without a pool, of a model without states, all functions do nothing.
  explicit SequenceStates(PagePool* pool) : pool_(pool) {}
  SequenceStates(SequenceStates&& other) noexcept;
  SequenceStates& operator=(SequenceStates&& other) noexcept;
  SequenceStates(const SequenceStates&) = delete;
  SequenceStates& operator=(const SequenceStates&) = delete;
  ~SequenceStates() { clear(); }

  // The pages that the next row reads, no_page for the states of no token, and writes.
  PageId from() const { return from_; }
  PageId to() const { return to_; }

  // Takes a page to write to if there is none yet. False: the pool is exhausted.
  bool take();
  // Goes on from a page that others hold too.
  void resume(PageId page);
  // A row was planned: the next one goes on from what it writes. The page that it reads stays held
  // until the row after it, so that no row of the same step gets it.
  void advance();
  // Keeps what the last row writes as the state after page `index` of the sequence. False: the pool
  // has no other page for the next row, and nothing was changed.
  bool keep(std::uint32_t index);
  // Takes a page for the state after page `index`, which is to come from elsewhere. False: the pool
  // is exhausted.
  bool receive(std::uint32_t index);
  std::optional<PageId> kept(std::uint32_t index) const;
  // Gives up the kept pages that the prefix tree holds; with `all`, the others too, which it had no
  // use for.
  void settle(bool all);
  void clear();
  std::vector<PageId> held() const;

 private:
  void give_back(PageId& page);

  PagePool* pool_;
  PageId from_ = no_page, to_ = no_page, read_ = no_page;  // read_: by the last row
  std::map<std::uint32_t, PageId> kept_;
};

}  // namespace millrace::engine
