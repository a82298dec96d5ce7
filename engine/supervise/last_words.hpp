#pragma once
// What an engine wrote last, for errors. Thread safety: pure functions.
#include <optional>
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::supervise {

// The last few lines of an output.
std::string last_lines_of(const std::string& output);
// Parses the error of an engine that refuses to start, whose last lines are "millrace-engine: CODE:
// message" and an indented hint. Nothing: the last words are no error.
std::optional<Error> own_error(const std::string& output);

}  // namespace millrace::supervise
