#pragma once
// The modes of a model's arithmetic. The mode is part of the numeric fingerprint. Thread safety:
// plain values.
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::engine {

enum class MathMode : std::uint8_t {
  exact,  // fp32 activations
  // 8-bit activations if weights are quantized, or on NVIDIA GPUs halves for all matrices but fp32
  // ones; integers in attention if KV is quantized
  fast,
  // Fast, but the layers' products multiply signed bytes, with a scale for each row of weights and
  // of activations. Only NVIDIA GPUs have it (check_math).
  int8
};

// By the number of the mode.
inline constexpr std::array<std::string_view, 3> math_names{"exact", "fast", "int8"};

constexpr std::string_view math_name(MathMode math) {
  return math_names[static_cast<std::size_t>(math)];
}

constexpr std::optional<MathMode> find_math(std::string_view name) {
  for (std::size_t i = 0; i < math_names.size(); ++i) {
    if (name == math_names[i]) return static_cast<MathMode>(i);
  }
  return std::nullopt;
}

// Whether products read rounded activations.
constexpr bool rounds(MathMode math) {
  return math != MathMode::exact;
}

}  // namespace millrace::engine
