#include "broker/core/name_order.hpp"

#include <algorithm>
#include <cstddef>

namespace millrace::broker {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Takes the digits that `text` begins with, and returns them without leading zeros.
std::string_view take_number(std::string_view& text) {
  const auto end =
      static_cast<std::size_t>(std::ranges::find_if_not(text, is_digit) - text.begin());
  std::string_view digits = text.substr(0, end);
  text.remove_prefix(end);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

}  // namespace

bool stands_before(std::string_view one, std::string_view other) {
  std::string_view a = one, b = other;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view first = take_number(a), second = take_number(b);
      if (first.size() != second.size()) return first.size() < second.size();
      if (first != second) return first < second;
    } else if (a.front() != b.front()) {
      return static_cast<unsigned char>(a.front()) < static_cast<unsigned char>(b.front());
    } else {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  if (a.empty() != b.empty()) return a.empty();
  return one < other;
}

}  // namespace millrace::broker
