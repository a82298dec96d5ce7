#include "schemas/base/split_name.hpp"

#include <algorithm>

namespace millrace {
namespace {

constexpr std::size_t digits = 5;

std::string five_digits(std::uint32_t number) {
  const std::string text = std::to_string(number);
  return std::string(digits - std::min(digits, text.size()), '0') + text;
}

// Takes `text` off the end of a path.
bool take(std::string_view& path, std::string_view text) {
  if (!path.ends_with(text)) return false;
  path.remove_suffix(text.size());
  return true;
}

// Takes five digits off the end of a path.
std::optional<std::uint32_t> take_number(std::string_view& path) {
  if (path.size() < digits) return std::nullopt;
  std::uint32_t number = 0;
  for (const char c : path.substr(path.size() - digits)) {
    if (c < '0' || c > '9') return std::nullopt;
    number = number * 10 + static_cast<std::uint32_t>(c - '0');
  }
  path.remove_suffix(digits);
  return number;
}

}  // namespace

std::string SplitName::part(std::uint32_t other) const {
  return stem + "-" + five_digits(other) + "-of-" + five_digits(count) + ".gguf";
}

std::optional<SplitName> split_name(std::string_view path) {
  if (!take(path, ".gguf")) return std::nullopt;
  const auto count = take_number(path);
  if (!count || !take(path, "-of-")) return std::nullopt;
  const auto number = take_number(path);
  if (!number || !take(path, "-") || *number < 1 || *number > *count) return std::nullopt;
  return SplitName{std::string(path), *number, *count};
}

}  // namespace millrace
