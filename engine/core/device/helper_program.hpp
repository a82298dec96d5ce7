#pragma once
// Processes that compile programs for others (program_helper.hpp). A program that may start itself
// as a helper calls run_program_helper() first of all, if its only argument is the flag, and ends
// with what that returns. Thread safety: call it from main() only.
#include <string_view>

namespace millrace::engine {

inline constexpr std::string_view program_helper_flag = "--compile-programs";

// Compiles what it is asked for over standard input, a socket, until that closes. Returns the exit
// code: 0, or 1 if the device cannot be opened.
int run_program_helper();

}  // namespace millrace::engine
