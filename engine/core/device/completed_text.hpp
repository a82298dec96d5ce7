#pragma once
// Instructions that the driver's OpenCL compiler does not know.
//
// NVIDIA's compiler builds for sm_90, and refuses what only sm_90a has, though the device has it. A
// kernel therefore writes such an instruction as a comment of the assembler, which begins with the
// mark "//@90a ", and the compiler fills in its operands. The binary of a program of that driver is
// the assembler's text. Here the marks and the target of that text are replaced; built as a binary,
// the result has the instructions. Thread safety: a pure function.
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace::engine {

inline constexpr std::string_view completed_mark = "//@90a ";

// Errors: kernel_build, if the text is not what such a compiler gave when this was written: a
// driver may change it.
Result<std::string> completed_text(std::string_view text);

}  // namespace millrace::engine
