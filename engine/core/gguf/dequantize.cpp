#include "engine/core/gguf/dequantize.hpp"

#include <cstring>
#include <string>

#include "engine/core/gguf/half.hpp"

namespace millrace::engine {
namespace {

template <class T>
T load(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

float load_half(const std::byte* from) {
  return half_to_float(load<std::uint16_t>(from));
}

// One element, four bytes.
void decode_f32(const std::byte* block, float* out) {
  *out = load<float>(block);
}

void decode_f16(const std::byte* block, float* out) {
  *out = load_half(block);
}

void decode_bf16(const std::byte* block, float* out) {
  *out = bfloat16_to_float(load<std::uint16_t>(block));
}

// half d, int8 q[32]: x = d q
void decode_q8_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(load<std::int8_t>(block + 2 + i));
}

// The 16 bytes after a 4-bit block's head: low nibbles are elements 0-15, high ones 16-31.
int nibble(const std::byte* packed, int i) {
  const auto byte = std::to_integer<int>(packed[i % 16]);
  return i < 16 ? byte & 15 : byte >> 4;
}

// half d, nibbles: x = d (q - 8)
void decode_q4_0(const std::byte* block, float* out) {
  const float d = load_half(block);
  for (int i = 0; i < 32; ++i) out[i] = d * static_cast<float>(nibble(block + 2, i) - 8);
}

// half d, half m, nibbles: x = d q + m
void decode_q4_1(const std::byte* block, float* out) {
  const float d = load_half(block), m = load_half(block + 2);
  for (int i = 0; i < 32; ++i) {
    const float product = d * static_cast<float>(nibble(block + 4, i));
    out[i] = product + m;
  }
}

using Decoder = void (*)(const std::byte* block, float* out);

struct Row {
  TensorType type;
  Decoder decode;
};

// A new type is a row here and one in tensor_type.cpp.
constexpr Row kDecoders[] = {
    {TensorType::f32, decode_f32},   {TensorType::f16, decode_f16},
    {TensorType::bf16, decode_bf16}, {TensorType::q8_0, decode_q8_0},
    {TensorType::q4_0, decode_q4_0}, {TensorType::q4_1, decode_q4_1},
};

Decoder decoder_of(TensorType type) {
  for (const auto& row : kDecoders)
    if (row.type == type) return row.decode;
  return nullptr;
}

}  // namespace

Status dequantize(TensorType type, std::span<const std::byte> packed, std::span<float> out) {
  const Decoder decode = decoder_of(type);
  if (decode == nullptr)
    return fail(Code::internal, "no decoder for the tensor type " +
                                    tensor_type_name(static_cast<std::uint32_t>(type)));
  const auto& traits = traits_of(type);
  const std::size_t blocks = packed.size() / traits.block_bytes;
  if (packed.size() % traits.block_bytes != 0 || out.size() != blocks * traits.block_elements)
    return fail(Code::internal, std::to_string(packed.size()) + " bytes of " +
                                    std::string(traits.name) + " do not make " +
                                    std::to_string(out.size()) + " elements");
  for (std::size_t i = 0; i < blocks; ++i)
    decode(packed.data() + i * traits.block_bytes, out.data() + i * traits.block_elements);
  return {};
}

Status dequantize_rows(const Tensor& tensor, std::uint64_t first, std::uint64_t count,
                       std::span<float> out) {
  if (first > tensor.rows() || count > tensor.rows() - first)
    return fail(Code::internal, "rows " + std::to_string(first) + " to " +
                                    std::to_string(first + count) + " are not in tensor '" +
                                    std::string(tensor.name) + "'");
  const auto bytes = tensor.row_bytes();
  return dequantize(tensor.type, tensor.data.subspan(first * bytes, count * bytes), out);
}

}  // namespace millrace::engine
