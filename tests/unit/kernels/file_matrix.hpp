#pragma once
// Random weight matrices as files hold them, and the values that the files define.
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/core/gguf/dequantize.hpp"
#include "tests/support/device.hpp"
#include "tests/support/random_blocks.hpp"

namespace millrace::engine {

struct FileMatrix {
  TensorType type = TensorType::f16;
  std::uint32_t rows = 0, columns = 0;
  std::vector<std::byte> bytes;
  std::vector<float> values;  // [rows][columns], as the file defines them

  Tensor tensor() const {
    Tensor out;
    out.name = "random";
    out.type = type;
    out.rank = 2;
    out.shape = {columns, rows, 1, 1};
    out.data = bytes;
    return out;
  }
};

inline FileMatrix random_file_matrix(TensorType type, std::uint32_t rows, std::uint32_t columns,
                                     testing::Random& random) {
  FileMatrix out{.type = type, .rows = rows, .columns = columns, .bytes = {}, .values = {}};
  const auto half = [&] {
    return static_cast<std::uint16_t>(random.below(2) << 15 | (0x2000 + random.below(0x1000)));
  };
  const std::uint32_t blocks = rows * (columns / traits_of(type).block_elements);
  for (std::uint32_t i = 0; i < blocks; ++i) {
    if (type == TensorType::f16) {
      testing::append_value(out.bytes, half());
    } else if (type == TensorType::bf16) {
      testing::append_value(out.bytes, static_cast<std::uint16_t>(random.below(2) << 15 |
                                                                  (0x3c00 + random.below(0x200))));
    } else {
      testing::append_random_block(out.bytes, type, random, [&](std::uint32_t) { return half(); });
    }
  }
  out.values.resize(std::size_t{rows} * columns);
  testing::must(dequantize_rows(out.tensor(), 0, rows, out.values));
  return out;
}

}  // namespace millrace::engine
