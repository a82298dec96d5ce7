#pragma once
// Whether a line is one JSON value that we would dare to build: valid UTF-8, valid JSON, bounded
// depth, no key twice in one object, no number beyond a double. Builds nothing itself.
// Errors: invalid_utf8, invalid_json, invalid_value, limit_exceeded; messages carry the column.
// Thread safety: pure function.
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace::client {

Status check_json(std::string_view text);

}  // namespace millrace::client
