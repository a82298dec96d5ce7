#pragma once
// Errors are values. One table (error_codes.hpp) holds the codes of the whole product: a code tells
// a program what went wrong, `message` tells a person what is wrong and where, `hint` says what to
// do about it. Thread safety: plain values.
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "schemas/base/error_codes.hpp"

namespace millrace {

enum class Code : std::uint16_t {
#define X(name, ...) name,
  MILLRACE_ERROR_CODES(X)
#undef X
};

std::string_view code_name(Code code);     // "invalid_json"
int code_http_status(Code code);           // 400
std::string_view code_summary(Code code);  // what is wrong, in one line
std::string_view code_advice(Code code);   // what to do about it, usually
std::optional<Code> code_from_name(std::string_view name);

// Whether a job that an engine ended with this error may run again: the error is one of the engine,
// its device or its memory, and none that the job itself causes. engine_failed is left out: an
// engine that gives no numbers, or a result that cannot be used, would do so again.
constexpr bool may_run_again(Code code) {
  switch (code) {
    case Code::device_error:
    case Code::kernel_build:
    case Code::out_of_memory:
    case Code::io_error:
    case Code::internal:
      return true;
    default:
      return false;
  }
}

struct Error {
  Code code = Code::internal;
  std::string message;  // what and where
  std::string hint;     // what to do; may be empty
  // The same may succeed after this time, because it failed for want of room. None: it has to be
  // changed first.
  std::optional<std::uint32_t> retry_ms{};

  std::string text() const;             // "code: message (hint)", one line
  std::string_view what_to_do() const;  // the hint, or the code's advice where there is none
  friend bool operator==(const Error&, const Error&) = default;
};

template <class T>
using Result = std::expected<T, Error>;
using Status = std::expected<void, Error>;

inline std::unexpected<Error> fail(Code code, std::string message, std::string hint = {}) {
  return std::unexpected(Error{code, std::move(message), std::move(hint)});
}
inline std::unexpected<Error> fail(Error error) {
  return std::unexpected(std::move(error));
}

}  // namespace millrace

// Returns from the calling function with the error of a Status or Result expression.
#define MILLRACE_TRY(expression)                                    \
  do {                                                              \
    if (auto try_status_ = (expression); !try_status_) [[unlikely]] \
      return std::unexpected(std::move(try_status_).error());       \
  } while (false)

#define MILLRACE_CONCAT_(a, b) a##b
#define MILLRACE_CONCAT(a, b) MILLRACE_CONCAT_(a, b)
// MILLRACE_ASSIGN(auto x, f()): declares x from f()'s value, or returns f()'s error.
#define MILLRACE_ASSIGN(declaration, expression)                                       \
  auto MILLRACE_CONCAT(try_result_, __LINE__) = (expression);                          \
  if (!MILLRACE_CONCAT(try_result_, __LINE__)) [[unlikely]]                            \
    return std::unexpected(std::move(MILLRACE_CONCAT(try_result_, __LINE__)).error()); \
  declaration = *std::move(MILLRACE_CONCAT(try_result_, __LINE__))
