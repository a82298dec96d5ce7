#pragma once
// Errors as OpenAI's error bodies:
//   {"error": {"message", "type", "param", "code", "hint"}}
// `type` is OpenAI's word for the HTTP status (code_http_status in schemas/base/error.hpp), `code`
// a code of our table, `param` the field that is wrong or null, and `hint` what to do about it: the
// error's own hint, or its code's advice. An answer's `message` ends with the hint, because
// OpenAI's clients show nothing else. Thread safety: pure functions.
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

// "what is wrong. What to do": the message and the hint, for those who see one text alone. It ends
// as the hint does, which may be a command or an address that is copied.
std::string whole_message(const Error& error);

// The body of an answer, or of the event that ends a stream.
std::string error_body(const Error& error);
// The same with another status than the code's, such as 401 for a token that is missing.
std::string error_body(const Error& error, int http_status);
// The body in a line of a batch's results, where the hint stands beside the message: it ends with
// none.
void write_error_body(JsonWriter& json, const Error& error);

}  // namespace millrace::openai
