#include "engine/core/model/backend/backend.hpp"

#include <cstring>

#include "engine/core/gguf/half.hpp"
#include "engine/core/model/backend/pack.hpp"

namespace millrace::engine {

Forms Backend::inputs_of(const PanelFormat& format, std::uint32_t /*columns*/,
                         MathMode math) const {
  const bool codes = rounds(math) && format.quantized();
  return {.rows = !codes, .codes = codes};
}

Forms Backend::inputs_of(const Projection& matrix) const {
  Forms forms;
  for (const WeightRun& run : matrix.runs)
    forms |= inputs_of(run.format, matrix.columns, target_.math);
  return forms;
}

Forms Backend::inputs_of(const ExpertMatrix& matrix) const {
  Forms forms;
  for (const ExpertRun& run : matrix.runs)
    forms |= inputs_of(run.format, matrix.columns, target_.math);
  return forms;
}

Status Backend::to_bytes(const BytesCall& /*call*/) {
  return fail(Code::internal, "no product of this family reads bytes");
}

std::uint64_t Backend::panel_bytes(const PanelFormat& format, std::uint32_t columns) const {
  return layout_of(format, columns).panel_bytes();
}

void Backend::pack(const PanelFormat& format, const Tensor& tensor, std::uint32_t panel,
                   std::span<std::byte> out, float factor) const {
  const PanelLayout layout = layout_of(format, static_cast<std::uint32_t>(tensor.shape[0]));
  pack_panel(layout, tensor, panel, out, factor);
}

void Backend::pack_pair(const PanelFormat& format, const PanelRows& gate, const PanelRows& up,
                        std::span<std::byte> out) const {
  const PanelLayout layout = layout_of(format, static_cast<std::uint32_t>(gate.tensor.shape[0]));
  engine::pack_pair(layout, gate, up, out);
}

// A head has keys [channels][16 positions], then values [16 positions][channels], all halves.
void Backend::read_key(std::span<const std::byte> page, std::uint32_t head, std::uint32_t slot,
                       std::span<float> out) const {
  const std::size_t head_halves = std::size_t{2} * kv_page_tokens * out.size();
  for (std::size_t c = 0; c < out.size(); ++c) {
    std::uint16_t half = 0;
    const std::size_t at = head * head_halves + c * kv_page_tokens + slot;
    std::memcpy(&half, &page[at * sizeof half], sizeof half);
    out[c] = half_to_float(half);
  }
}

}  // namespace millrace::engine
