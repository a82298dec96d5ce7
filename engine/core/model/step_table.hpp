#pragma once
// A StepPlan as one array of 32-bit words, from which all kernels of a step read. It is written
// once; launches carry offsets into it.
//
//   ids [tokens] | slots [tokens] | positions [tokens] | tables [tokens] | outputs [n] |
//   for each windowed cache group: positions [tokens] | tables [tokens] | page ids |
//   of models with recurrent layers: a StateRow for each row |
//   what the backend's attention reads besides (Backend::cut_attention)
//
// A backend appends records of kernels/step/records.h; the other lists have a word an entry.
// tables[t] is the offset, in words from the start, of the page table of token t's sequence; in a
// windowed group it lies before the entries of the pages that the sequence has, which are the only
// ones that are read. Each group has positions before its tables, so that kernels find both alike.
// outputs[i] is the token whose logits row i wants. Errors of `lower`: invalid_token, and internal
// for a plan that breaks the contract of plan.hpp; then nothing has been enqueued. Thread safety:
// plain values; one owner a StepLowering.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "engine/core/kv/cache_pools.hpp"
#include "engine/core/model/plan.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// A list of `count` entries in the array, from `offset` words on.
struct ItemList {
  std::uint32_t offset = 0, count = 0;
};

struct StepLimits {
  std::uint32_t tokens = 0, outputs = 0, vocabulary = 0, context_tokens = 0;
  std::uint32_t page_tokens = 0;
  std::vector<PoolSize> groups{1};  // of the cache
  std::uint32_t device_slots = 0;
  std::vector<std::uint32_t> windows{0};  // of each entry of StepTable::attention; 0: all
  std::uint32_t states = 0;               // places of states; 0: the model has no recurrent layers
};

// A run of tokens of one sequence.
struct StepRow {
  std::uint32_t token = 0, count = 0, first_position = 0;
};

// The attention of layers that a step cuts alike: they have one window, and as many heads.
struct AttentionItems {
  std::uint32_t window = 0;                       // positions that a token sees; 0: all
  std::uint32_t positions_at = 0, tables_at = 0;  // of the layers' cache group
  // Tiles and units of work, if the backend cuts attention into them, and the numbers that they
  // use.
  ItemList tiles{};
  ItemList single_units{}, multi_units{};
  std::uint32_t single_tokens = 0;  // most tokens of a single unit
  std::uint32_t partials = 0, counters = 0;
};

struct StepTable {
  std::uint32_t tokens = 0, outputs = 0;
  std::uint32_t ids_at = 0, slots_at = 0, positions_at = 0, tables_at = 0, outputs_at = 0;
  std::vector<StepRow> rows{};              // of the plan
  std::vector<AttentionItems> attention{};  // in the order of StepLimits::windows
  ItemList state_rows{};                    // of models with recurrent layers
  std::vector<std::uint32_t> words{};

  // Appends records, which are whole words each.
  ItemList append(const auto& records) {
    const ItemList list{static_cast<std::uint32_t>(words.size()),
                        static_cast<std::uint32_t>(records.size())};
    const auto bytes = std::as_bytes(std::span(records));
    words.resize(words.size() + bytes.size() / sizeof(words[0]));
    if (!bytes.empty()) std::memcpy(&words[list.offset], bytes.data(), bytes.size());
    return list;
  }
};

// Lowers plans. It reuses its memory, and that of the table, from step to step.
class StepLowering {
 public:
  // After an error the table must not be used.
  Status lower(const StepPlan& plan, const StepLimits& limits, StepTable& table);

 private:
  void append_groups(const StepPlan& plan, const StepLimits& limits, StepTable& table) const;
  void append_states(const StepPlan& plan, StepTable& table);

  std::vector<std::uint32_t> outputs_;
  std::vector<kernels::StateRow> states_;
};

}  // namespace millrace::engine
