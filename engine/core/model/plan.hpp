#pragma once
// The plan of one step: a ragged batch of rows, each some consecutive tokens of one sequence. The
// scheduler makes it, and Model::forward computes it. Thread safety: plain values.
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/step/records.h"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

using PageId = std::uint32_t;
inline constexpr PageId no_page = 0xffffffffu;
inline constexpr std::uint32_t no_slot = STEP_NO_SLOT;

// An output of a row, at `offset` from its first token. Logits are written to the logits buffer in
// the order of the plan: rows in order, outputs of a row in order.
enum class OutputKind : std::uint8_t { logits, prompt_logprob };
struct RowOutput {
  std::uint32_t offset = 0;
  OutputKind kind = OutputKind::logits;
};

struct PlanRow {
  std::uint64_t sequence = 0;        // the scheduler's number of the sequence
  std::uint32_t first_position = 0;  // of tokens[0]
  std::uint32_t count = 0;           // tokens of this row in this step
  // The row's ids are `count` ids of StepPlan::tokens from token_offset on. For a decoding row
  // whose id is still on the device, it is the entry `device_slot` of the sampler's id buffer; then
  // count is 1 and the host id is ignored.
  std::uint32_t token_offset = 0;
  std::uint32_t device_slot = no_slot;
  // The sequence's page table of cache group 0 in StepPlan::pages: page i holds positions
  // [i*page_tokens, (i+1)*page_tokens). It must cover first_position + count. Pages that this step
  // writes must belong to this row alone.
  std::uint32_t page_offset = 0, page_count = 0;
  // Of a model with recurrent layers: the places of the sequence's states that the row reads,
  // no_page before its first token, and writes, which may be the same. No other row of the step
  // writes to the one or uses the other.
  PageId state_from = no_page, state_to = no_page;
  // For a sequence that has one place of states from its first token on, in plans that are made
  // without a scheduler. Other models ignore the place.
  void keep_states_at(PageId place) {
    state_from = first_position == 0 ? no_page : place;
    state_to = place;
  }
  std::uint32_t output_offset = 0, output_count = 0;  // in StepPlan::outputs
  // The slot of the sequence's draws, by which a pipeline divides a step; no_slot in plans that are
  // made without a scheduler.
  std::uint32_t slot = no_slot;
};

// A row's page table of a windowed cache group in StepPlan::pages: page `first` + i at `offset` +
// i, up to the page of the row's last position. It has no pages before the first that the row sees.
struct WindowTable {
  std::uint32_t offset = 0, first = 0, count = 0;
};

// The copy of a page that another sequence began and a row of this step continues. Whole pages are
// copied in this order before the step's rows run, so that a row of the same step may write to a
// page that is read here.
struct PageCopy {
  PageId from = 0, to = 0;
  std::uint32_t group = 0;  // cache group
};

struct StepPlan {
  std::vector<PageCopy> copies;
  std::vector<PlanRow> rows;
  Tokens tokens;
  std::vector<PageId> pages;
  // Of row r and windowed group g, both from 0: entry r * windowed groups + g. If it is empty, all
  // groups have the pages of group 0, as in plans that are made for sequences without a scheduler.
  std::vector<WindowTable> windowed;
  std::vector<RowOutput> outputs;
  void clear() {
    copies.clear();
    rows.clear();
    tokens.clear();
    pages.clear();
    windowed.clear();
    outputs.clear();
  }
};

// The ids of pages that have the same number in all of so many cache groups, page by page.
inline std::vector<PageId> in_all_groups(std::span<const PageId> pages, std::size_t groups) {
  std::vector<PageId> out;
  for (const PageId page : pages) out.insert(out.end(), groups, page);
  return out;
}

}  // namespace millrace::engine
