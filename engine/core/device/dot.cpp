#include "engine/core/device/dot.hpp"

#include <algorithm>

namespace millrace::engine {

std::string_view dot_name(Dot dot) {
  switch (dot) {
    case Dot::plain:
      return "plain";
    case Dot::avx2:
      return "avx2";
    case Dot::avx512bw:
      return "avx512bw";
    case Dot::avx512vnni:
      return "avx512vnni";
  }
  return "";
}

std::optional<Dot> find_dot(std::string_view name) {
  const auto found = std::ranges::find(all_dots, name, dot_name);
  if (found == all_dots.end()) return std::nullopt;
  return *found;
}

bool processor_has(Dot dot) {
#if defined(__x86_64__) || defined(__i386__)
  switch (dot) {
    case Dot::plain:
      return true;
    case Dot::avx2:
      return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
    case Dot::avx512bw:
      return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0;
    case Dot::avx512vnni:
      return processor_has(Dot::avx512bw) && __builtin_cpu_supports("avx512vnni") != 0;
  }
#endif
  return dot == Dot::plain;
}

Dot best_dot() {
  return *std::ranges::find_if(all_dots.rbegin(), all_dots.rend(), processor_has);
}

}  // namespace millrace::engine
