#pragma once
// Errors are values. One table holds the codes of the whole product: a code tells a program what
// went wrong, `message` tells a person what is wrong and where, `hint` says what to do about it.
// Thread safety: plain values.
#include <cstdint>
#include <expected>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace millrace {

// X(name, http status used in OpenAI-style output lines, one line for `millrace errors`)
#define MILLRACE_ERROR_CODES(X)                                                             \
  /* what a producer sent */                                                                \
  X(invalid_json, 400, "the line is not valid JSON")                                        \
  X(invalid_value, 400, "a field has a wrong type or a value out of range")                 \
  X(missing_field, 400, "a required field is absent")                                       \
  X(unsupported_field, 400, "a known field that this version does not support")             \
  X(unknown_field, 400, "an unknown field, refused because the job is strict")              \
  X(unknown_task, 400, "this version does not run the job's task")                          \
  X(unknown_model, 404, "no engine serves this model")                                      \
  X(empty_prompt, 400, "the prompt has no tokens")                                          \
  X(invalid_token, 400, "a token id is outside the vocabulary")                             \
  X(context_exceeded, 400, "prompt and output do not fit the model's context")              \
  X(kv_exceeded, 400, "the sequence cannot fit the KV memory")                              \
  X(no_chat_template, 400, "the model has no chat template")                                \
  X(template_error, 400, "the chat template refused or failed")                             \
  X(template_unsupported, 400, "the chat template uses something outside our Jinja subset") \
  X(limit_exceeded, 400, "a documented limit is exceeded")                                  \
  X(too_large, 413, "a frame, line or body is larger than its limit")                       \
  X(conflict, 409, "the id is already known with another body")                             \
  X(batch_closed, 409, "the batch is closed and takes no new jobs")                         \
  X(deadline_passed, 400, "the deadline is in the past")                                    \
  /* how a job ended */                                                                     \
  X(cancelled, 499, "the job was cancelled")                                                \
  X(expired, 408, "the deadline passed before the job ended")                               \
  X(engine_died, 500, "the engine died while it ran this job, as often as allowed")         \
  X(engine_failed, 500, "the engine could not run the job")                                 \
  X(fingerprint_mismatch, 409, "the engine's numeric fingerprint is not the required one")  \
  /* messages */                                                                            \
  X(malformed_frame, 400, "the bytes are not one valid msgpack message")                    \
  X(invalid_utf8, 400, "a string is not valid UTF-8")                                       \
  X(unknown_kind, 400, "no such message kind")                                              \
  X(unsupported_version, 400, "the protocol version is not supported")                      \
  X(unexpected_message, 400, "the message does not fit the session's state or role")        \
  X(stale, 409, "the lease is no longer the current one")                                   \
  X(not_found, 404, "no such job, batch, stream or lease")                                  \
  X(trimmed, 410, "the requested numbers are no longer kept")                               \
  X(epoch_changed, 409, "the stream belongs to another ledger")                             \
  X(unauthorized, 403, "the session may not do this")                                       \
  X(overloaded, 429, "a queue is full; wait and send again")                                \
  X(draining, 503, "the process is shutting down and takes no new work")                    \
  /* files, ledger, network */                                                              \
  X(io_error, 500, "a file or socket operation failed")                                     \
  X(disk_full, 507, "no space left for new jobs")                                           \
  X(ledger_in_use, 409, "another broker holds this ledger")                                 \
  X(ledger_unavailable, 503, "the ledger does not answer for the moment")                   \
  X(ledger_newer, 409, "the ledger was written by a newer version")                         \
  X(ledger_older, 409, "the ledger was written by an earlier version")                      \
  X(ledger_corrupt, 500, "the ledger is damaged")                                           \
  X(ledger_settings, 500, "the ledger's durability settings are not the required ones")     \
  X(output_in_use, 409, "another run writes this output")                                   \
  X(input_changed, 409, "the input is not the one that this run began with")                \
  X(settings_changed, 409, "the settings are not the ones that this run began with")        \
  X(unreachable, 503, "the broker cannot be reached")                                       \
  X(timed_out, 504, "no answer within the time allowed")                                    \
  /* model files */                                                                         \
  X(gguf_unreadable, 400, "the model file cannot be opened or read")                        \
  X(gguf_malformed, 400, "the model file is damaged or hostile")                            \
  X(gguf_version, 400, "the GGUF version is not supported")                                 \
  X(folder_unreadable, 400, "the model folder lacks a file, or it cannot be read")          \
  X(folder_malformed, 400, "a file of the model folder is damaged or contradicts another")  \
  X(unsupported_quantization, 400, "the model folder's quantization is not supported")      \
  X(unsupported_architecture, 400, "the model's architecture is not supported")             \
  X(unsupported_tensor_type, 400, "a tensor's type is not supported")                       \
  X(unsupported_tokenizer, 400, "the tokenizer model or pre-tokenizer is not supported")    \
  /* device */                                                                              \
  X(no_device, 500, "no OpenCL device")                                                     \
  X(device_error, 500, "an OpenCL call failed")                                             \
  X(kernel_build, 500, "a kernel did not compile")                                          \
  X(out_of_memory, 500, "the device or host has not enough memory")                         \
  /* the rest */                                                                            \
  X(usage, 400, "the command line is wrong")                                                \
  X(interrupted, 499, "stopped by a signal")                                                \
  X(internal, 500, "a defect in Millrace: please report it")

enum class Code : std::uint16_t {
#define X(name, status, text) name,
  MILLRACE_ERROR_CODES(X)
#undef X
};

std::string_view code_name(Code code);     // "invalid_json"
int code_http_status(Code code);           // 400
std::string_view code_summary(Code code);  // the table's line of text
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

  std::string text() const;  // "code: message (hint)", one line
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
