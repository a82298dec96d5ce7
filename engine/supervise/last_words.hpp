#pragma once
// What an engine wrote last, for errors. Thread safety: pure functions.
#include <optional>
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::supervise {

// The last few lines of an output.
std::string last_lines_of(const std::string& output);
// Parses the last error among the last few lines: "millrace-engine: CODE: message", with an
// indented hint below it or none. Lines after it, as of a device that is given back, do not hide
// it. Nothing: no line is an error.
std::optional<Error> own_error(const std::string& output);
// The one line that says most: the code and message of that error, else the last line.
std::string last_line_of(const std::string& output);

}  // namespace millrace::supervise
