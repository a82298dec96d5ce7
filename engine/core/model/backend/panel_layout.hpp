#pragma once
// Where the numbers of a panel stand (kernels/matmul/layout.cl draws it), for the families whose
// products read this layout: all so far. Thread safety: plain values.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/model/panel.hpp"

namespace millrace::engine {

inline constexpr std::uint32_t unit_columns = 64;  // of unit_rows()

// `columns` is the true number; the kernels' K is that number rounded up to 32.
struct PanelLayout {
  PanelFormat format;
  std::uint32_t columns = 0;
  bool lanes = false;  // blocks stand as the lanes of a matrix unit take them (LANES)

  std::uint32_t k() const { return round_up(columns, block_columns); }
  // Whether rows of halves stand as that unit reads them from local memory (UNIT_ROWS).
  bool unit_rows() const { return lanes && format.codes == Codes::f16; }
  // Whether rows of bytes stand so, and their scales behind them (kernels/matmul/int8_nvidia.cl).
  bool bytes() const { return format.codes == Codes::bytes; }
  // A panel's table, scales and codes follow one another; each begins at a multiple of 64 bytes.
  std::uint64_t level_bytes() const { return format.levels ? 64 : 0; }
  std::uint64_t scale_bytes() const;
  // Where the halves that steps multiply begin.
  std::uint64_t halves_at() const { return level_bytes() + number_bytes(); }
  std::uint64_t code_bytes() const;
  std::uint64_t codes_at() const { return level_bytes() + scale_bytes(); }
  std::uint64_t panel_bytes() const { return codes_at() + code_bytes(); }
  // Where column k of a block stands among its codes or halves, and word i of a row among the words
  // of the block.
  std::uint32_t place_of(std::uint32_t k) const;
  std::uint32_t word_at(std::uint32_t i, std::uint32_t row) const;
  // The defines for kernels that read such panels.
  std::vector<std::string> defines() const;

 private:
  std::uint64_t number_bytes() const;  // of steps, halves or floats
};

}  // namespace millrace::engine
