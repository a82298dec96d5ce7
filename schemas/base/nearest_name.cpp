#include "schemas/base/nearest_name.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace millrace {
namespace {

// The fewest typing errors that lead from one text to the other, where no letter is part of two.
std::size_t typing_errors(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) last[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t wrong = last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, wrong});
      const bool exchanged = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (exchanged) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    std::swap(before, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

}  // namespace

std::vector<std::string> nearest_names(std::string_view typed, std::span<const std::string> names) {
  std::size_t least = typed.size() / 3;
  std::vector<std::string> nearest;
  for (const std::string& name : names) {
    const std::size_t errors = typing_errors(typed, name);
    if (errors > least) continue;
    if (errors < least) nearest.clear();
    least = errors;
    nearest.push_back(name);
  }
  return nearest;
}

std::optional<std::string> nearest_name(std::string_view typed,
                                        std::span<const std::string> names) {
  std::vector<std::string> nearest = nearest_names(typed, names);
  return nearest.size() == 1 ? std::optional(std::move(nearest[0])) : std::nullopt;
}

std::string did_you_mean(std::string_view typed, std::span<const std::string> names) {
  std::string meant;
  for (const std::string& name : nearest_names(typed, names)) {
    meant += (meant.empty() ? "did you mean " : " or ") + name;
  }
  return meant.empty() ? meant : meant + "? ";
}

}  // namespace millrace
