#include "client/lines/line_id.hpp"

#include <charconv>

#include "schemas/base/hash.hpp"

namespace millrace::client {

std::string line_id(std::uint64_t number, std::uint64_t hash, std::uint32_t retry) {
  const std::string id = std::to_string(number) + "-" + hex(hash);
  return retry == 0 ? id : id + "." + std::to_string(retry);
}

std::optional<LineId> parse_line_id(std::string_view id) {
  LineId parsed;
  if (const std::size_t dot = id.find('.'); dot != std::string_view::npos) {
    const char* const end = id.data() + id.size();
    const auto retry = std::from_chars(id.data() + dot + 1, end, parsed.retry);
    if (retry.ec != std::errc() || retry.ptr != end || parsed.retry == 0) {
      return std::nullopt;
    }
    id = id.substr(0, dot);
  }
  const std::size_t dash = id.find('-');
  if (dash == std::string_view::npos || dash == 0 || id.size() != dash + 17) {
    return std::nullopt;
  }
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
