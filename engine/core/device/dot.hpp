#pragma once
// The integer dot products that kernels of the cpu family can use. All give the same bits. The
// choice is made at run time, because an OpenCL compiler may not know all instructions of the
// processor (PoCL 3.1 compiles for Skylake on every later one). Thread safety: any thread.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace millrace::engine {

// The numbers are those of the define DOT (kernels/matmul/dot.cl).
enum class Dot : std::uint8_t { plain = 0, avx2 = 1, avx512bw = 2, avx512vnni = 3, amx = 4 };

inline constexpr std::array<Dot, 5> all_dots{Dot::plain, Dot::avx2, Dot::avx512bw, Dot::avx512vnni,
                                             Dot::amx};

std::string_view dot_name(Dot dot);  // "avx512vnni"
std::optional<Dot> find_dot(std::string_view name);

// Whether this process can use the instructions: the processor has them, and for amx the system
// allows them, which the first call asks for.
bool processor_has(Dot dot);
Dot best_dot();

}  // namespace millrace::engine
