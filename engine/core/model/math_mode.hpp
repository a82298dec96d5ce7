#pragma once
// The modes of a model's arithmetic. The mode is part of the numeric fingerprint.
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::engine {

enum class MathMode : std::uint8_t {
  exact,  // fp32 activations
  // 8-bit activations if weights are quantized, or on NVIDIA GPUs halves for all matrices but fp32
  // ones; integers in attention if KV is quantized
  fast
};

constexpr std::string_view math_name(MathMode math) {
  return math == MathMode::exact ? "exact" : "fast";
}

constexpr std::optional<MathMode> find_math(std::string_view name) {
  if (name == math_name(MathMode::exact)) return MathMode::exact;
  if (name == math_name(MathMode::fast)) return MathMode::fast;
  return std::nullopt;
}

}  // namespace millrace::engine
