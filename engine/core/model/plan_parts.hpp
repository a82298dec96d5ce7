#pragma once
// Divides the rows of a step among parts that a pipeline computes one after the other, so that each
// device has a part to compute. Rows of one sequence stay in one part from step to step as long as
// its draws are on the device: a part waits only for ids of the same part of the step before. How
// rows are divided changes no bit. Thread safety: pure functions.
#include <cstdint>
#include <span>
#include <vector>

#include "engine/core/model/plan.hpp"

namespace millrace::engine {

// A part may have no rows. Its plan has no copies, which belong to the whole step.
struct PlanPart {
  StepPlan plan;
  std::vector<std::uint32_t> outputs;  // of the whole plan, in the order of the part's
};

// Rows that draw go by their slots, so that parts of a full batch have as many; the others go where
// the fewest tokens are.
void divide(const StepPlan& plan, std::span<PlanPart> parts);

}  // namespace millrace::engine
