#pragma once
// Base64 with the standard alphabet and padding (RFC 4648 section 4). Thread safety: pure.
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace {

std::string base64_encode(std::string_view bytes);
// Strict: requires padding and accepts no other characters. Errors: invalid_value.
Result<std::string> base64_decode(std::string_view text);

}  // namespace millrace
