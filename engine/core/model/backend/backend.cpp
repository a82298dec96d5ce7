#include "engine/core/model/backend/backend.hpp"

#include "engine/core/model/backend/pack.hpp"

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

std::uint64_t Backend::panel_bytes(const PanelFormat& format, std::uint32_t columns) const {
  return PanelLayout{format, columns}.panel_bytes();
}

void Backend::pack(const PanelFormat& format, const Tensor& tensor, std::uint32_t panel,
                   std::span<std::byte> out, float factor) const {
  const PanelLayout layout{format, static_cast<std::uint32_t>(tensor.shape[0])};
  pack_panel(layout, tensor, panel, out, factor);
}

}  // namespace millrace::engine
