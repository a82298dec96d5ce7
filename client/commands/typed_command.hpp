#pragma once
// The command line as it was typed, for hints that tell how to go on. Thread safety: pure
// functions.
#include <string>

namespace millrace::client {

struct Invocation;

// Returns the command with all its words, quoted where a shell needs it, so that it can be pasted.
// Leaves out `option` with its value, and adds `option` with `value` if that is not empty.
std::string typed_command(const Invocation& invocation, const std::string& option,
                          const std::string& value);

}  // namespace millrace::client
