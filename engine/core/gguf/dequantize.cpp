#include "engine/core/gguf/dequantize.hpp"

#include <string>

#include "engine/core/gguf/half.hpp"
#include "engine/core/gguf/load.hpp"
#include "engine/core/gguf/quant_block.hpp"

namespace millrace::engine {
namespace {

// One element, four bytes.
void decode_f32(const std::byte* block, float* out) {
  *out = load<float>(block);
}

void decode_f16(const std::byte* block, float* out) {
  *out = half_to_float(load<std::uint16_t>(block));
}

void decode_bf16(const std::byte* block, float* out) {
  *out = bfloat16_to_float(load<std::uint16_t>(block));
}

using Decoder = void (*)(const std::byte* block, float* out);

Decoder plain_decoder(TensorType type) {
  if (type == TensorType::f32) return decode_f32;
  if (type == TensorType::f16) return decode_f16;
  return type == TensorType::bf16 ? decode_bf16 : nullptr;
}

void decode(const QuantTraits& traits, std::uint32_t elements, const std::byte* packed,
            float* out) {
  QuantBlock block;
  unpack_block(traits, packed, block);
  for (std::uint32_t i = 0; i < elements; ++i) {
    const std::uint32_t group = i / traits.group_elements;
    const int code = block.codes[i];
    const int value = traits.levels == nullptr ? code - traits.offset
                                               : (*traits.levels)[static_cast<std::size_t>(code)];
    const float product = block.scales[group] * static_cast<float>(value);
    out[i] = traits.affine ? product + block.minimums[group] : product;
  }
}

}  // namespace

Status dequantize(TensorType type, std::span<const std::byte> packed, std::span<float> out) {
  const QuantTraits* const quantized = find_quant_traits(type);
  const Decoder plain = plain_decoder(type);
  if (quantized == nullptr && plain == nullptr)
    return fail(Code::internal, "no decoder for the tensor type " +
                                    tensor_type_name(static_cast<std::uint32_t>(type)));
  const auto& traits = traits_of(type);
  const std::size_t blocks = packed.size() / traits.block_bytes;
  if (packed.size() % traits.block_bytes != 0 || out.size() != blocks * traits.block_elements)
    return fail(Code::internal, std::to_string(packed.size()) + " bytes of " +
                                    std::string(traits.name) + " do not make " +
                                    std::to_string(out.size()) + " elements");
  for (std::size_t i = 0; i < blocks; ++i) {
    const std::byte* const block = packed.data() + i * traits.block_bytes;
    float* const to = out.data() + i * traits.block_elements;
    if (quantized != nullptr)
      decode(*quantized, traits.block_elements, block, to);
    else
      plain(block, to);
  }
  return {};
}

Status dequantize_rows(const Tensor& tensor, std::uint64_t first, std::uint64_t count,
                       std::span<float> out) {
  if (first > tensor.rows() || count > tensor.rows() - first)
    return fail(Code::internal, "rows " + std::to_string(first) + " to " +
                                    std::to_string(first + count) + " are not in tensor '" +
                                    std::string(tensor.name) + "'");
  std::vector<std::byte> scratch;
  return dequantize(tensor.type, tensor.read(first, count, scratch), out);
}

}  // namespace millrace::engine
