#pragma once
// Finds the name that somebody probably meant who typed another one. Thread safety: any thread.
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace {

// Returns the name that becomes `typed` by the fewest typing errors: letters that are missing, too
// many, wrong, or exchanged with the next. Nothing if that takes more than one error for every
// three letters of `typed`, or if two names are equally near.
std::optional<std::string> nearest_name(std::string_view typed, std::span<const std::string> names);
// All that are equally near, in the order of `names`.
std::vector<std::string> nearest_names(std::string_view typed, std::span<const std::string> names);
// The beginning of a hint that names them, as "did you mean stats or status? "; empty if there are
// none.
std::string did_you_mean(std::string_view typed, std::span<const std::string> names);

}  // namespace millrace
