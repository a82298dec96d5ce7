#pragma once
// A StepPlan as one array of 32-bit words, from which all kernels of a step read. It is written
// once; launches carry offsets into it.
//
//   ids [tokens] | slots [tokens] | positions [tokens] | tables [tokens] | outputs [n] |
//   tiles [n] | for each window: single units [n] | multi units [n] |
//   for each windowed cache group: positions [tokens] | tables [tokens] | page ids
//
// Tiles and units are records of kernels/step/records.h; the other lists have a word an entry.
// tables[t] is the offset, in words from the start, of the page table of token t's sequence; in a
// windowed group it lies before the entries of the pages that the sequence has, which are the only
// ones that are read. Each group has positions before its tables, so that kernels find both alike.
// outputs[i] is the token whose logits row i wants. Units and tiles come from attention_units.hpp;
// there are none if StepLimits::attention has no workers. Errors of `lower`: invalid_token, and
// internal for a plan that breaks the contract of plan.hpp; then nothing has been enqueued. Thread
// safety: plain values; one owner a StepLowering.
#include <cstdint>
#include <vector>

#include "engine/core/kv/cache_pools.hpp"
#include "engine/core/model/attention_units.hpp"
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
  AttentionLimits attention{};
  std::vector<std::uint32_t> windows{0};  // the different windows of the model's layers; 0: all
};

// The units of the layers with one window.
struct AttentionItems {
  ItemList single_units, multi_units;
  std::uint32_t partials = 0, counters = 0;       // numbers that the units use
  std::uint32_t positions_at = 0, tables_at = 0;  // of the layers' cache group
};

struct StepTable {
  std::uint32_t tokens = 0, outputs = 0;
  std::uint32_t ids_at = 0, slots_at = 0, positions_at = 0, tables_at = 0, outputs_at = 0;
  ItemList tiles;
  std::vector<AttentionItems> attention;  // in the order of StepLimits::windows
  std::vector<std::uint32_t> words;
};

// Lowers plans. It reuses its memory, and that of the table, from step to step.
class StepLowering {
 public:
  // After an error the table must not be used.
  Status lower(const StepPlan& plan, const StepLimits& limits, StepTable& table);

 private:
  void append_groups(const StepPlan& plan, const StepLimits& limits, StepTable& table) const;

  std::vector<AttentionRow> rows_;
  std::vector<std::uint32_t> outputs_;
  AttentionPlanner attention_;
};

}  // namespace millrace::engine
