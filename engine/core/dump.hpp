#pragma once
// For dumps of a state as text, which tests compare: whatever decides how things go on is in them,
// so that "nothing has changed" can be asked byte by byte. Not parsed by anybody.
#include <bit>
#include <cstdint>
#include <ostream>
#include <string_view>
#include <type_traits>

namespace millrace::engine {

// " name[a,b,]"; numbers that are not whole by their bits, which tell NaNs apart as well.
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
