#include "engine/core/model/backend/generic/generic_backend.hpp"

#include "engine/core/model/backend/generic/generic_experts.hpp"

namespace millrace::engine {

std::unique_ptr<ExpertProducts> GenericBackend::experts(const ExpertsSpec&, Gate) {
  return std::make_unique<GenericExperts>(*this);
}

// In a launch of whole layers groups wait for one another, and OpenCL C 1.2 does not promise that a
// group that has begun goes on while another waits.
Result<JoinedLayers> GenericBackend::join(std::span<const LayerProgram>) {
  JoinedLayers none;
  none.why = "whole layers need a CPU device that shares the host's memory";
  return none;
}

}  // namespace millrace::engine
