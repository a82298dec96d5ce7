#include "kernels/sources.hpp"

#include <algorithm>

namespace millrace::kernels {

// Both are defined in the file that embed.cmake writes.
extern const Source embedded_sources[];
extern const std::size_t embedded_source_count;

std::span<const Source> sources() {
  return {embedded_sources, embedded_source_count};
}

const Source* find_source(std::string_view path) {
  const auto all = sources();
  const auto found = std::ranges::find(all, path, &Source::path);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace millrace::kernels
