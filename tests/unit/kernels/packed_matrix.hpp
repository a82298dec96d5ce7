#pragma once
// Random weight matrices, as numbers and as the panels that kernels read
// (kernels/matmul/layout.cl).
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "engine/core/gguf/half.hpp"
#include "engine/core/model/backend/panel_layout.hpp"
#include "tests/support/device.hpp"

namespace millrace::engine {

using testing::Random;

// A matrix as codes and scales by row and column, and as panels.
struct Matrix {
  PanelLayout layout;
  std::uint32_t rows = 0, panels = 0;
  std::vector<std::uint8_t> codes;    // [rows][K]
  std::vector<std::uint8_t> line;     // the levels of a panel, if it has them
  std::vector<float> scales;          // [rows][K / 32][scales per block]
  std::vector<std::uint32_t> bits;    // the scales, or their steps, as the format stores them
  std::vector<std::uint16_t> halves;  // [rows][K / 256][d, m], which steps multiply
  std::vector<std::byte> packed;
};

enum class Extremes : std::uint8_t { none, all };

inline std::uint16_t random_half(Random& random) {
  const auto sign = static_cast<std::uint16_t>(random.below(2) << 15);
  if (random.below(16) == 0) return static_cast<std::uint16_t>(sign | random.below(0x400));
  return static_cast<std::uint16_t>(sign | (0x2400 + random.below(0x1800)));
}

// Writes the code of column c as kernels/matmul/layout.cl draws it.
inline void put_code(const PanelFormat& format, std::uint32_t code, std::uint32_t c,
                     std::uint32_t lane, std::byte* codes) {
  const auto bits = static_cast<std::uint32_t>(format.codes);
  const std::uint32_t low = bits == 5 || bits == 6 ? 4 : bits, high = bits - low;
  const std::uint32_t group = c % 32 / 4;  // of four columns
  const auto put = [&](std::uint32_t word, std::uint32_t shift, std::uint32_t value) {
    std::byte& to = codes[((c / 32 * bits + word) * 16 + lane) * 4 + c % 4];
    to |= static_cast<std::byte>(value << shift);
  };
  put(group * low / 8, group * low % 8, code & ((1u << low) - 1));
  if (high > 0) put(4 + group * high / 8, group * high % 8, code >> low);
}

inline void pack(Matrix& m) {
  const PanelFormat& format = m.layout.format;
  const std::uint32_t k = m.layout.k(), blocks = k / 32, each = format.scales_per_block();
  const std::uint32_t each_half = format.affine ? 2 : 1;
  m.packed.assign(m.panels * m.layout.panel_bytes(), std::byte{0});
  for (std::uint32_t r = 0; r < m.rows; ++r) {
    std::byte* const panel = m.packed.data() + r / 16 * m.layout.panel_bytes();
    std::byte* const scales = panel + m.layout.level_bytes();
    const std::uint32_t lane = r % 16;
    for (std::uint32_t i = 0; i < m.layout.level_bytes(); ++i) panel[i] = std::byte{m.line[i % 16]};
    for (std::uint32_t i = 0; i < blocks * each; ++i) {
      const std::uint32_t& number = m.bits[std::size_t{r} * blocks * each + i];
      std::memcpy(scales + (i * 16 + lane) * format.scale_bytes, &number, format.scale_bytes);
    }
    for (std::uint32_t i = 0; format.has_steps() && i < k / 256 * each_half; ++i) {
      const std::uint16_t& half = m.halves[std::size_t{r} * (k / 256) * each_half + i];
      std::memcpy(panel + m.layout.halves_at() + (i * 16 + lane) * 2, &half, 2);
    }
    for (std::uint32_t c = 0; c < k; ++c) {
      put_code(format, m.codes[std::size_t{r} * k + c], c, lane, panel + m.layout.codes_at());
    }
  }
}

inline Matrix random_matrix(const PanelFormat& format, std::uint32_t rows, std::uint32_t columns,
                            Extremes extremes, Random& random) {
  Matrix m;
  m.layout = {format, columns};
  m.rows = rows;
  m.panels = (rows + 15) / 16;
  const std::uint32_t top = (1u << static_cast<std::uint32_t>(format.codes)) - 1;
  if (format.levels) {
    for (std::uint32_t i = 0; i < 16; ++i) {
      m.line.push_back(static_cast<std::uint8_t>(i == 15 ? 255 : random.below(256)));
    }
  }
  for (std::uint32_t i = 0; i < rows * columns; ++i) {
    const std::uint32_t code = extremes == Extremes::all ? top : random.below(top + 1);
    m.codes.push_back(static_cast<std::uint8_t>(code));
  }
  for (std::uint32_t i = 0; format.has_steps() && i < rows * (columns / 256) * 2; ++i) {
    if (i % 2 == 0 || format.affine) m.halves.push_back(random_half(random));
  }
  const std::uint32_t each = format.scales_per_block();
  for (std::uint32_t i = 0; i < rows * (columns / 32) * each; ++i) {
    const std::uint16_t half = random_half(random);
    const float single = random.uniform(-1, 1);
    if (format.has_steps()) {
      const auto step = static_cast<std::int8_t>(random.below(256) - 128);
      const std::uint32_t block = i / each, minimum = i % each / format.runs();
      const std::size_t at = block / 8 * (format.affine ? 2 : 1) + minimum;
      m.scales.push_back(half_to_float(m.halves[at]) * static_cast<float>(step));
      m.bits.push_back(static_cast<std::uint8_t>(step));
      continue;
    }
    const bool halves = format.scale_bytes == 2;
    m.scales.push_back(halves ? half_to_float(half) : single);
    m.bits.push_back(halves ? half : std::bit_cast<std::uint32_t>(single));
  }
  pack(m);
  return m;
}

}  // namespace millrace::engine
