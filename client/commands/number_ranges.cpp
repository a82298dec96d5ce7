#include "client/commands/number_ranges.hpp"

#include <algorithm>

namespace millrace::client {
namespace {

constexpr std::size_t ranges_shown = 20;

}  // namespace

std::string number_ranges(std::vector<std::uint64_t> numbers) {
  std::ranges::sort(numbers);
  std::string text;
  std::size_t shown = 0;
  for (auto at = numbers.begin(); at != numbers.end(); ++shown) {
    if (shown == ranges_shown) {
      return text + " and others up to " + std::to_string(numbers.back());
    }
    const std::uint64_t first = *at;
    std::uint64_t last = first;
    for (++at; at != numbers.end() && *at <= last + 1; ++at) {
      last = *at;
    }
    text += (text.empty() ? "" : ", ") + std::to_string(first);
    text += first == last ? "" : " to " + std::to_string(last);
  }
  return text;
}

}  // namespace millrace::client
