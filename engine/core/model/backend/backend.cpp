#include "engine/core/model/backend/backend.hpp"

namespace millrace::engine {

Forms Backend::inputs_of(const PanelFormat& format, MathMode math) const {
  const bool codes = math == MathMode::fast && format.quantized();
  return {.rows = !codes, .codes = codes};
}

Forms Backend::inputs_of(const Projection& matrix) const {
  Forms forms;
  for (const WeightRun& run : matrix.runs) forms |= inputs_of(run.format, target_.math);
  return forms;
}

Forms Backend::inputs_of(const ExpertMatrix& matrix) const {
  Forms forms;
  for (const ExpertRun& run : matrix.runs) forms |= inputs_of(run.format, target_.math);
  return forms;
}

}  // namespace millrace::engine
