#pragma once
// Errors as answers: OpenAI's error body, with the status of the error's code or another one.
// Thread safety: pure functions.
#include "http/request.hpp"
#include "schemas/base/error.hpp"

namespace millrace::http {

Response problem(const Error& error);
Response problem(const Error& error, int status);

}  // namespace millrace::http
