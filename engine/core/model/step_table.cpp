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

// A plan without tables of windowed groups gives them the pages of group 0.
WindowTable window_table(const StepPlan& plan, std::size_t row, std::size_t group,
                         std::size_t groups) {
  if (!plan.windowed.empty()) return plan.windowed[row * (groups - 1) + group - 1];
  return {plan.rows[row].page_offset, 0, plan.rows[row].page_count};
}

Status check_pages(const StepPlan& plan, std::size_t row, const WindowTable& table,
                   const PoolSize& pool) {
  if (!within(table.offset, table.count, plan.pages.size())) {
    return broken(row, "pages outside the plan");
  }
  const auto pages = std::span(plan.pages).subspan(table.offset, table.count);
  if (std::ranges::all_of(pages, [&](PageId page) { return page < pool.pages; })) return {};
  return broken(row, "no such page");
}

Status check_states(const PlanRow& row, std::size_t index, const StepLimits& limits) {
  const bool first = row.first_position == 0;
  if (row.state_to >= limits.states || (!first && row.state_from >= limits.states)) {
    return broken(index, "no such place of states");
  }
  if (first && row.state_from != no_page) return broken(index, "a state before its first token");
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
  MILLRACE_TRY(check_pages(plan, index, {row.page_offset, 0, row.page_count}, limits.groups[0]));
  for (std::size_t group = 1; group < limits.groups.size(); ++group) {
    const WindowTable table = window_table(plan, index, group, limits.groups.size());
    MILLRACE_TRY(check_pages(plan, index, table, limits.groups[group]));
    const std::uint64_t held = std::uint64_t{table.first} + table.count;
    if (held * limits.page_tokens < end) {
      return broken(index, "pages of a windowed group do not cover its positions");
    }
    const std::uint32_t window = limits.groups[group].window;
    if (table.first > first_seen_page(row.first_position, window, limits.page_tokens)) {
      return broken(index, "a windowed group lacks pages that it sees");
    }
  }
  if (limits.states > 0) MILLRACE_TRY(check_states(row, index, limits));
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
  const std::size_t windowed = plan.rows.size() * (limits.groups.size() - 1);
  if (!plan.windowed.empty() && plan.windowed.size() != windowed) {
    return fail(Code::internal, "a step plan with page tables of other cache groups");
  }
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
  table.rows.clear();
  outputs_.clear();
  std::uint32_t token = 0;
  for (const PlanRow& row : plan.rows) {
    table.rows.push_back(
        {.token = token, .count = row.count, .first_position = row.first_position});
    for (std::uint32_t i = 0; i < row.output_count; ++i) {
      outputs_.push_back(token + plan.outputs[row.output_offset + i].offset);
    }
    token += row.count;
  }
  table.slots_at = totals.tokens;
  table.positions_at = 2 * totals.tokens;
  table.tables_at = 3 * totals.tokens;
  table.outputs_at = 4 * totals.tokens;
  auto& words = table.words;
  words.assign(std::size_t{4} * totals.tokens, 0);
  table.append(outputs_);
  table.attention.clear();
  for (const std::uint32_t window : limits.windows) table.attention.push_back({.window = window});
  token = 0;
  for (const PlanRow& row : plan.rows) {
    for (std::uint32_t i = 0; i < row.count; ++i, ++token) {
      const bool on_device = row.device_slot != no_slot;
      words[table.ids_at + token] = on_device ? 0 : plan.tokens[row.token_offset + i];
      words[table.slots_at + token] = row.device_slot;
      words[table.positions_at + token] = row.first_position + i;
    }
  }
  append_groups(plan, limits, table);
  table.state_rows = {};
  if (limits.states > 0) append_states(plan, table);
  return {};
}

void StepLowering::append_states(const StepPlan& plan, StepTable& table) {
  static_assert(no_page == STEP_NO_SLOT);
  states_.clear();
  for (std::size_t r = 0; r < plan.rows.size(); ++r) {
    const PlanRow& row = plan.rows[r];
    states_.push_back({.token = table.rows[r].token,
                       .tokens = row.count,
                       .from = row.state_from,
                       .to = row.state_to});
  }
  table.state_rows = table.append(states_);
}

// Appends the page ids, and before them the positions and tables of windowed groups.
void StepLowering::append_groups(const StepPlan& plan, const StepLimits& limits,
                                 StepTable& table) const {
  auto& words = table.words;
  const auto size = [&] { return static_cast<std::uint32_t>(words.size()); };
  const std::size_t groups = limits.groups.size();
  std::vector<std::uint32_t> positions_at{table.positions_at};
  for (std::size_t group = 1; group < groups && !plan.windowed.empty(); ++group) {
    positions_at.push_back(size());
    words.resize(words.size() + 2 * std::size_t{table.tokens});
    std::copy_n(words.begin() + table.positions_at, table.tokens,
                words.begin() + positions_at.back());
  }
  // A table of a windowed group may begin before its first entry by the pages that it lacks.
  std::uint32_t pages_at = size();
  for (const WindowTable& windowed : plan.windowed) {
    if (windowed.offset < windowed.first) {
      pages_at = std::max(pages_at, windowed.first - windowed.offset);
    }
  }
  words.resize(pages_at);
  words.insert(words.end(), plan.pages.begin(), plan.pages.end());
  for (std::size_t group = 0; group < positions_at.size(); ++group) {
    std::uint32_t at = positions_at[group] + table.tokens;
    for (std::size_t r = 0; r < plan.rows.size(); ++r) {
      const PlanRow& row = plan.rows[r];
      const WindowTable of_row = group == 0 ? WindowTable{row.page_offset, 0, row.page_count}
                                            : window_table(plan, r, group, groups);
      const std::uint32_t begin = pages_at + of_row.offset - of_row.first;
      for (std::uint32_t i = 0; i < row.count; ++i) words[at++] = begin;
    }
  }
  for (std::size_t i = 0; i < limits.windows.size(); ++i) {
    const auto found = std::ranges::find(limits.groups, limits.windows[i], &PoolSize::window);
    const auto group = static_cast<std::size_t>(found - limits.groups.begin());
    const std::uint32_t at = positions_at[group < positions_at.size() ? group : 0];
    table.attention[i].positions_at = at;
    table.attention[i].tables_at = at + table.tokens;
  }
}

}  // namespace millrace::engine
