#include "engine/core/model/step_table.hpp"

#include <algorithm>
#include <span>
#include <string>

namespace millrace::engine {
namespace {

std::unexpected<Error> broken(std::size_t row, const std::string& what) {
  return fail(Code::internal, "step plan, row " + std::to_string(row) + ": " + what);
}

bool within(std::uint64_t first, std::uint64_t count, std::uint64_t size) {
  return first <= size && count <= size - first;
}

Status check_tokens(const StepPlan& plan, std::size_t index, const StepLimits& limits) {
  const PlanRow& row = plan.rows[index];
  if (row.count == 0) return broken(index, "no token");
  if (row.device_slot != no_slot) {
    if (row.count != 1) return broken(index, "several tokens from a device slot");
    if (row.device_slot >= limits.device_slots) return broken(index, "no such device slot");
    return {};
  }
  if (!within(row.token_offset, row.count, plan.tokens.size())) {
    return broken(index, "tokens outside the plan");
  }
  for (std::uint32_t i = 0; i < row.count; ++i) {
    const TokenId id = plan.tokens[row.token_offset + i];
    if (id >= limits.vocabulary) {
      return fail(Code::invalid_token,
                  "token id " + std::to_string(id) + " lies outside the vocabulary of " +
                      std::to_string(limits.vocabulary),
                  "use ids of this model's tokenizer");
    }
  }
  return {};
}

Status check_row(const StepPlan& plan, std::size_t index, const StepLimits& limits) {
  const PlanRow& row = plan.rows[index];
  MILLRACE_TRY(check_tokens(plan, index, limits));
  const std::uint64_t end = std::uint64_t{row.first_position} + row.count;
  if (end > limits.context_tokens) return broken(index, "positions beyond the model's context");
  if (!within(row.page_offset, row.page_count, plan.pages.size())) {
    return broken(index, "pages outside the plan");
  }
  if (std::uint64_t{row.page_count} * limits.page_tokens < end) {
    return broken(index, "pages do not cover its positions");
  }
  const auto pages = plan.pages.begin() + row.page_offset;
  if (std::any_of(pages, pages + row.page_count,
                  [&](PageId page) { return page >= limits.page_count; })) {
    return broken(index, "no such page");
  }
  if (!within(row.output_offset, row.output_count, plan.outputs.size())) {
    return broken(index, "outputs outside the plan");
  }
  for (std::uint32_t i = 0; i < row.output_count; ++i) {
    const RowOutput& output = plan.outputs[row.output_offset + i];
    if (output.offset >= row.count) return broken(index, "an output beyond its tokens");
  }
  return {};
}

struct Totals {
  std::uint32_t tokens = 0, outputs = 0;
};

Result<Totals> check_plan(const StepPlan& plan, const StepLimits& limits) {
  std::uint64_t tokens = 0, outputs = 0;
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    MILLRACE_TRY(check_row(plan, i, limits));
    tokens += plan.rows[i].count;
    outputs += plan.rows[i].output_count;
  }
  if (tokens == 0) return fail(Code::internal, "a step plan without tokens");
  if (tokens > limits.tokens || outputs > limits.outputs) {
    return fail(Code::internal, "a step plan of " + std::to_string(tokens) + " tokens and " +
                                    std::to_string(outputs) + " outputs where " +
                                    std::to_string(limits.tokens) + " and " +
                                    std::to_string(limits.outputs) + " are the most");
  }
  return Totals{static_cast<std::uint32_t>(tokens), static_cast<std::uint32_t>(outputs)};
}

}  // namespace

Status StepLowering::lower(const StepPlan& plan, const StepLimits& limits, StepTable& table) {
  MILLRACE_ASSIGN(const Totals totals, check_plan(plan, limits));
  table.tokens = totals.tokens;
  table.outputs = totals.outputs;
  rows_.clear();
  outputs_.clear();
  std::uint32_t token = 0;
  for (const PlanRow& row : plan.rows) {
    rows_.push_back({.token = token, .count = row.count, .first_position = row.first_position});
    for (std::uint32_t i = 0; i < row.output_count; ++i) {
      outputs_.push_back(token + plan.outputs[row.output_offset + i].offset);
    }
    token += row.count;
  }
  const auto size = [](const auto& list) { return static_cast<std::uint32_t>(list.size()); };
  table.slots_at = totals.tokens;
  table.positions_at = 2 * totals.tokens;
  table.tables_at = 3 * totals.tokens;
  table.outputs_at = 4 * totals.tokens;
  auto& words = table.words;
  words.assign(std::size_t{4} * totals.tokens, 0);
  const auto append = [&](std::span<const std::uint32_t> part, std::uint32_t entry_words) {
    const ItemList list{size(words), size(part) / entry_words};
    words.insert(words.end(), part.begin(), part.end());
    return list;
  };
  append(outputs_, 1);
  table.attention.clear();
  for (const std::uint32_t window : limits.windows) {
    const AttentionUnits& units = attention_.plan(rows_, limits.attention, window);
    // Windows change units, not tiles.
    if (table.attention.empty()) table.tiles = append(units.tiles, 2);
    table.attention.push_back({.single_units = append(units.single, attention_unit_words),
                               .multi_units = append(units.multi, attention_unit_words),
                               .partials = units.partials,
                               .counters = units.counters});
  }
  const std::uint32_t pages_at = size(words);
  append(plan.pages, 1);
  token = 0;
  for (const PlanRow& row : plan.rows) {
    for (std::uint32_t i = 0; i < row.count; ++i, ++token) {
      const bool on_device = row.device_slot != no_slot;
      words[table.ids_at + token] = on_device ? 0 : plan.tokens[row.token_offset + i];
      words[table.slots_at + token] = row.device_slot;
      words[table.positions_at + token] = row.first_position + i;
      words[table.tables_at + token] = pages_at + row.page_offset;
    }
  }
  return {};
}

}  // namespace millrace::engine
