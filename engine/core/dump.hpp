#pragma once
// Helpers for dumps of a state as text. A dump holds everything that decides what happens next, so
// that a test can compare two dumps byte by byte to see that nothing has changed. No program parses
// them.
#include <bit>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <type_traits>

namespace millrace::engine {

// Writes " name[a,b,]". Floats are written as their bits, so that different NaNs differ.
template <class List>
void dump_list(std::ostream& out, std::string_view name, const List& list) {
  out << ' ' << name << '[';
  for (const auto& item : list) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(item)>, float>) {
      out << std::bit_cast<std::uint32_t>(item) << ',';
    } else {
      out << item << ',';
    }
  }
  out << ']';
}

}  // namespace millrace::engine
