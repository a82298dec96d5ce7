#include "client/run/line_id.hpp"

#include <charconv>

#include "schemas/base/hash.hpp"

namespace millrace::client {

std::string line_id(std::uint64_t number, std::uint64_t hash) {
  return std::to_string(number) + "-" + hex(hash);
}

std::optional<LineId> parse_line_id(std::string_view id) {
  const std::size_t dash = id.find('-');
  if (dash == std::string_view::npos || dash == 0 || id.size() != dash + 17) {
    return std::nullopt;
  }
  LineId parsed;
  const char* begin = id.data();
  const auto number = std::from_chars(begin, begin + dash, parsed.number);
  const auto hash = std::from_chars(begin + dash + 1, begin + id.size(), parsed.hash, 16);
  if (number.ec != std::errc() || number.ptr != begin + dash || hash.ec != std::errc() ||
      hash.ptr != begin + id.size() || parsed.number == 0) {
    return std::nullopt;
  }
  return parsed;
}

}  // namespace millrace::client
