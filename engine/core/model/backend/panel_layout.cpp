#include "engine/core/model/backend/panel_layout.hpp"

#include "engine/core/model/program_text.hpp"
#include "kernels/matmul/int8_panel.h"

namespace millrace::engine {
namespace {

constexpr std::uint64_t line_bytes = 64;

constexpr std::uint64_t to_lines(std::uint64_t bytes) {
  return (bytes + line_bytes - 1) / line_bytes * line_bytes;
}

constexpr std::uint32_t bits_of(Codes codes) {
  switch (codes) {
    case Codes::f32:
      return 32;
    case Codes::f16:
    case Codes::bf16:
      return 16;
    default:
      return static_cast<std::uint32_t>(codes);
  }
}

}  // namespace

std::uint64_t PanelLayout::number_bytes() const {
  const std::uint64_t blocks = k() / block_columns;
  return blocks * format.scales_per_block() * panel_rows * format.scale_bytes;
}

std::uint64_t PanelLayout::scale_bytes() const {
  constexpr std::uint64_t half_bytes = 2;
  const std::uint64_t halves =
      format.has_steps() ? std::uint64_t{k() / step_columns} * (format.affine ? 2 : 1) : 0;
  return to_lines(number_bytes() + halves * panel_rows * half_bytes);
}

std::uint64_t PanelLayout::code_bytes() const {
  if (bytes()) return INT8_PANEL_BYTES(INT8_GROUPS(std::uint64_t{columns}));
  const std::uint32_t padded = unit_rows() ? round_up(columns, unit_columns) : k();
  return std::uint64_t{padded} * panel_rows * bits_of(format.codes) / 8;
}

std::uint32_t PanelLayout::place_of(std::uint32_t k) const {
  return lanes ? k % 8 / 2 * 8 + k / 16 * 4 + k % 16 / 8 * 2 + k % 2 : k;
}

std::uint32_t PanelLayout::word_at(std::uint32_t i, std::uint32_t row) const {
  const std::uint32_t bits = bits_of(format.codes);
  const std::uint32_t own = bits == 8 ? 2 : 1;  // of a lane and row; high bits have other words
  if (!lanes || bits < 4 || i >= 4 * own) return i * panel_rows + row;
  return ((row % 8 * 4 + i / own) * own + i % own) * 2 + row / 8;
}

std::vector<std::string> PanelLayout::defines() const {
  std::vector<std::string> out{define("CODES", static_cast<std::uint64_t>(format.codes)),
                               define("OFFSET", format.offset),
                               define("AFFINE", format.affine ? 1 : 0),
                               define("CODE_LEVELS", format.levels ? 1 : 0),
                               define("SCALE_SIZE", format.scale_bytes),
                               define("SCALE_BLOCK", format.scale_block),
                               define("LANES", lanes ? 1 : 0),
                               define("K", k())};
  if (format.floats) out.push_back(define("CODE_FLOATS", 1));
  return out;
}

}  // namespace millrace::engine
