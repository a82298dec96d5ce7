#include "http/problem.hpp"

#include <string>

#include "schemas/openai/error_body.hpp"

namespace millrace::http {
namespace {

constexpr std::uint32_t ms_per_s = 1'000;

}  // namespace

Response problem(const Error& error) {
  return problem(error, code_http_status(error.code));
}

Response problem(const Error& error, int status) {
  Response response{.status = status,
                    .body = openai::error_body(error, status),
                    .type = "application/json",
                    .headers = {}};
  if (status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (status == 429 || status == 503) {
    const std::uint32_t wait_s = (error.retry_ms.value_or(ms_per_s) + ms_per_s - 1) / ms_per_s;
    response.headers.emplace_back("Retry-After", std::to_string(wait_s));
  }
  return response;
}

}  // namespace millrace::http
