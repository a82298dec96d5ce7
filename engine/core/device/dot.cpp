#include "engine/core/device/dot.hpp"

#if defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <algorithm>

namespace millrace::engine {
namespace {

// Asks the system to allow the tiles of AMX to this process, with all its threads. Old systems and
// some sandboxes refuse.
bool may_use_tiles() {
#if defined(__linux__) && defined(__x86_64__)
  constexpr long request_state = 0x1023, tile_data = 18;  // ARCH_REQ_XCOMP_PERM, XTILEDATA
  static const bool allowed = syscall(SYS_arch_prctl, request_state, tile_data) == 0;
  return allowed;
#else
  return false;
#endif
}

}  // namespace

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
    case Dot::amx:
      return "amx";
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
    case Dot::amx:
      return processor_has(Dot::avx512vnni) && __builtin_cpu_supports("amx-int8") != 0 &&
             may_use_tiles();
  }
#endif
  return dot == Dot::plain;
}

Dot best_dot() {
  return *std::ranges::find_if(all_dots.rbegin(), all_dots.rend(), processor_has);
}

}  // namespace millrace::engine
