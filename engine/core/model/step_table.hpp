#pragma once
// A StepPlan lowered to one array of 32-bit words, which is all that the kernels of a step read:
// written once, indexed by offsets that the launches carry.
//
//   ids [tokens] | slots [tokens] | positions [tokens] | tables [tokens] | outputs [n] |
//   single items [n][2] | multi items [n][2] | page ids
//
// tables[t] is the offset, in words from the start, of the page table of token t's sequence.
// outputs[i] is the token whose logits row i wants. An attention item is (first token, number of
// tokens), all of one plan row; items of one token stand apart from the others. Errors of `lower`:
// invalid_token, and internal for a plan that breaks the contract of plan.hpp; nothing has been
// enqueued then. Thread safety: plain values.
#include <cstdint>
#include <vector>

#include "engine/core/model/plan.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

struct ItemList {
  std::uint32_t offset = 0, count = 0;
};

struct StepLimits {
  std::uint32_t tokens = 0, outputs = 0, vocabulary = 0, context_tokens = 0;
  std::uint32_t page_tokens = 0, page_count = 0;
  std::uint32_t device_slots = 0;
  std::uint32_t queries_per_item = 1;
};

struct StepTable {
  std::uint32_t tokens = 0, outputs = 0;
  std::uint32_t ids_at = 0, slots_at = 0, positions_at = 0, tables_at = 0, outputs_at = 0;
  ItemList single_items, multi_items;
  std::vector<std::uint32_t> words;

  static Result<StepTable> lower(const StepPlan& plan, const StepLimits& limits);
};

}  // namespace millrace::engine
