#pragma once
// Checks that a line is one JSON value that is safe to build: valid UTF-8, valid JSON, bounded
// depth, no key twice in one object, no number beyond 64 bits or a double. Builds nothing itself.
// Errors: invalid_utf8 with the byte, invalid_json with the column of a syntax error,
// invalid_value, limit_exceeded.
// Thread safety: pure function.
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace::openai {

Status check_json(std::string_view text);

}  // namespace millrace::openai
