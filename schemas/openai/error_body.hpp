#pragma once
// Errors as OpenAI's error bodies:
//   {"error": {"message", "type", "param", "code", "hint"}}
// `type` is OpenAI's word for the HTTP status (code_http_status in schemas/base/error.hpp), `code`
// a code of our table, `param` the field that is wrong or null, and `hint` what to do about it: the
// error's own hint, or its code's advice. Thread safety: pure functions.
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::openai {

// "invalid_request_error", "authentication_error", "permission_error", "not_found_error",
// "rate_limit_error" or "server_error".
std::string_view error_type(int http_status);
// Returns the field of a request that the error is about, as a path ("messages[0].role"); empty if
// it is about none.
std::string error_param(const Error& error);

std::string error_body(const Error& error);
// The same with another status than the code's, such as 401 for a token that is missing.
std::string error_body(const Error& error, int http_status);
void write_error_body(JsonWriter& json, const Error& error);

}  // namespace millrace::openai
