#include "engine/core/model/panel.hpp"

#include <cstdlib>

#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine {

PanelFormat format_of(TensorType type) {
  if (const QuantTraits* const quantized = find_quant_traits(type)) {
    const bool levels = quantized->levels != nullptr;
    return {.codes = static_cast<Codes>(quantized->bits),
            .offset = levels ? std::uint8_t{128} : quantized->offset,
            .affine = quantized->affine,
            .levels = levels,
            .scale_bytes = static_cast<std::uint8_t>(quantized->scales),
            .scale_block = static_cast<std::uint8_t>(quantized->group_elements)};
  }
  switch (type) {
    case TensorType::f32:
      return {.codes = Codes::f32};
    case TensorType::f16:
      return {.codes = Codes::f16};
    case TensorType::bf16:
      return {.codes = Codes::bf16};
    default:
      std::abort();  // every other type is quantized; a test checks all types
  }
}

}  // namespace millrace::engine
