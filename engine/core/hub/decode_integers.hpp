#pragma once
// Matrices of packed integers by method: gptq, awq, and pack-quantized compressed-tensors.
// Thread safety: pure functions.
#include <string>

#include "engine/core/hub/decode.hpp"

namespace millrace::engine {

// What quantization_config says of all matrices.
struct IntegerForm {
  enum class Method : std::uint8_t { none, gptq, awq, packed } method = Method::none;
  std::uint32_t bits = 4;
  std::uint32_t group = 0;       // columns that share a scale; 0: all of a row
  std::uint32_t zero_added = 0;  // gptq's first version stores zero points less 1
};

// Errors: unsupported_quantization (bits other than 4 and 8), folder_malformed.
Result<IntegerForm> read_integer_form(const std::string& method, const Settings& quantization,
                                      const std::string& source);

// The matrix whose parts have names that begin with `stem`.
Result<Source> decode_integers(const IntegerForm& form, const HubTensors& tensors,
                               const std::string& stem, const std::string& source);

}  // namespace millrace::engine
