#pragma once
// The codecs that can store heads of each size: all whose group divides the size, rotated ones if
// the size is a power of two, and the plain ones alone for 80. Thread safety: pure function.
#include <cstdint>
#include <string>
#include <vector>

namespace millrace::testing {

struct StoredAs {
  std::string codec;
  std::uint32_t head_dim;
};

inline std::vector<StoredAs> every_codec() {
  std::vector<StoredAs> out;
  for (const std::uint32_t head_dim : {64u, 96u, 128u, 256u, 512u, 80u}) {
    out.push_back({"f16", head_dim});
    out.push_back({"f32", head_dim});
    for (const int bits : {8, 6, 5, 4, 3, 2}) {
      for (const std::uint32_t group : {32u, 64u, 128u}) {
        if (head_dim % group != 0) continue;
        out.push_back({"q" + std::to_string(bits) + "g" + std::to_string(group), head_dim});
      }
      if (head_dim % 64 == 0) out.push_back({"r" + std::to_string(bits), head_dim});
    }
  }
  return out;
}

}  // namespace millrace::testing
