#pragma once
// The tensor types of GGUF files: their numbers in ggml's enum, and the elements and bytes of a
// block. Source: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
// Thread safety: constants.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace millrace::engine {

enum class TensorType : std::uint32_t {
  f32 = 0,
  f16 = 1,
  q4_0 = 2,
  q4_1 = 3,
  q5_0 = 6,
  q5_1 = 7,
  q8_0 = 8,
  q2_k = 10,
  q3_k = 11,
  q4_k = 12,
  q5_k = 13,
  q6_k = 14,
  iq2_xxs = 16,
  iq2_xs = 17,
  iq3_xxs = 18,
  iq4_nl = 20,
  iq3_s = 21,
  iq2_s = 22,
  iq4_xs = 23,
  bf16 = 30,
  mxfp4 = 39,
  nvfp4 = 40,
};

struct TensorTypeTraits {
  TensorType type;
  std::string_view name;         // "Q4_1"
  std::uint32_t block_elements;  // along the innermost dimension
  std::uint32_t block_bytes;
};

std::span<const TensorTypeTraits> tensor_types();  // the supported ones

// The traits of a supported type; null for a number that this version cannot read.
const TensorTypeTraits* find_tensor_type(std::uint32_t number);
const TensorTypeTraits& traits_of(TensorType type);

// A name for any number in a file, also of an unsupported type: "IQ1_S", "type 99".
std::string tensor_type_name(std::uint32_t number);
// "F32, F16, ...", for error hints.
std::string supported_tensor_types();

}  // namespace millrace::engine
