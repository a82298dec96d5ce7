#include "engine/core/model/plan_parts.hpp"

#include <algorithm>
#include <limits>

namespace millrace::engine {
namespace {

constexpr std::size_t undecided = std::numeric_limits<std::size_t>::max();

// Whether a later row waits for this one's draw, or this one for an earlier draw.
bool draws(const StepPlan& plan, const PlanRow& row) {
  if (row.device_slot != no_slot) return true;
  if (row.output_count == 0) return false;
  return plan.outputs[row.output_offset + row.output_count - 1].kind == OutputKind::logits;
}

void append(const StepPlan& plan, std::size_t index, PlanPart& part) {
  PlanRow row = plan.rows[index];
  for (std::uint32_t i = 0; i < row.output_count; ++i) {
    part.outputs.push_back(row.output_offset + i);
    part.plan.outputs.push_back(plan.outputs[row.output_offset + i]);
  }
  row.output_offset = static_cast<std::uint32_t>(part.plan.outputs.size()) - row.output_count;
  part.plan.rows.push_back(row);
  const std::size_t groups = plan.windowed.size() / plan.rows.size();
  for (std::size_t group = 0; group < groups; ++group) {
    part.plan.windowed.push_back(plan.windowed[index * groups + group]);
  }
}

}  // namespace

void divide(const StepPlan& plan, std::span<PlanPart> parts) {
  for (PlanPart& part : parts) {
    part.plan.clear();
    part.outputs.clear();
    part.plan.tokens = plan.tokens;
    part.plan.pages = plan.pages;
  }
  std::vector<std::uint64_t> tokens(parts.size());
  std::vector<std::size_t> place(plan.rows.size(), undecided);
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    const PlanRow& row = plan.rows[i];
    const std::uint32_t slot = row.slot != no_slot ? row.slot : row.device_slot;
    if (slot == no_slot || !draws(plan, row)) continue;
    place[i] = slot % parts.size();
    tokens[place[i]] += row.count;
  }
  for (std::size_t i = 0; i < plan.rows.size(); ++i) {
    if (place[i] != undecided) continue;
    place[i] = static_cast<std::size_t>(std::ranges::min_element(tokens) - tokens.begin());
    tokens[place[i]] += plan.rows[i].count;
  }
  for (std::size_t i = 0; i < plan.rows.size(); ++i) append(plan, i, parts[place[i]]);
}

}  // namespace millrace::engine
