#include "engine/core/convert/encode.hpp"

#include <cstring>

#include "engine/core/convert/encoders.hpp"
#include "engine/core/gguf/half.hpp"

namespace millrace::engine {
namespace {

using BlockEncoder = void (*)(const float* values, CodedBlock& out);

struct Encoder {
  TensorType type;
  BlockEncoder encode;
};

constexpr Encoder kEncoders[] = {
    {TensorType::q8_0, encoders::q8_0},     {TensorType::q4_0, encoders::q4_0},
    {TensorType::q4_1, encoders::q4_1},     {TensorType::q5_0, encoders::q5_0},
    {TensorType::q5_1, encoders::q5_1},     {TensorType::q2_k, encoders::q2_k},
    {TensorType::q3_k, encoders::q3_k},     {TensorType::q4_k, encoders::q4_k},
    {TensorType::q5_k, encoders::q5_k},     {TensorType::q6_k, encoders::q6_k},
    {TensorType::iq4_nl, encoders::iq4_nl}, {TensorType::iq4_xs, encoders::iq4_xs},
    {TensorType::mxfp4, encoders::mxfp4},
};

BlockEncoder find_encoder(TensorType type) {
  for (const Encoder& encoder : kEncoders)
    if (encoder.type == type) return encoder.encode;
  return nullptr;
}

bool is_plain(TensorType type) {
  return type == TensorType::f32 || type == TensorType::f16 || type == TensorType::bf16;
}

void encode_plain(TensorType type, std::span<const float> values, std::byte* out) {
  if (type == TensorType::f32) {
    std::memcpy(out, values.data(), values.size_bytes());
    return;
  }
  for (const float value : values) {
    const std::uint16_t bits =
        type == TensorType::f16 ? float_to_half(value) : float_to_bfloat16(value);
    std::memcpy(out, &bits, sizeof bits);
    out += sizeof bits;
  }
}

}  // namespace

bool can_encode(TensorType type) {
  return is_plain(type) || find_encoder(type) != nullptr;
}

float largest_value(TensorType type) {
  constexpr float largest_half = 65504, largest_bfloat16 = 3.3895314e38f, largest = 3.4028235e38f;
  if (type == TensorType::f32) return largest;
  return type == TensorType::bf16 ? largest_bfloat16 : largest_half;
}

Status encode(TensorType type, std::span<const float> values, std::span<std::byte> out) {
  const auto& traits = traits_of(type);
  const std::size_t blocks = values.size() / traits.block_elements;
  if (!can_encode(type))
    return fail(Code::internal, "no encoder for the tensor type " + std::string(traits.name));
  if (values.size() % traits.block_elements != 0 || out.size() != blocks * traits.block_bytes)
    return fail(Code::internal, std::to_string(values.size()) + " elements do not make " +
                                    std::to_string(out.size()) + " bytes of " +
                                    std::string(traits.name));
  if (is_plain(type)) {
    encode_plain(type, values, out.data());
    return {};
  }
  const BlockEncoder encode_block = find_encoder(type);
  const QuantTraits& quantized = *find_quant_traits(type);
  for (std::size_t i = 0; i < blocks; ++i) {
    CodedBlock block;
    encode_block(values.data() + i * traits.block_elements, block);
    pack_block(quantized, block, out.data() + i * traits.block_bytes);
  }
  return {};
}

}  // namespace millrace::engine
