#pragma once
// Decodes the result that a stream entry holds. The bytes come from an engine, which may have
// written anything: a reader reports what it cannot decode as a failed job, and reads on.
// Thread safety: pure functions.
#include <string>

#include "schemas/messages.hpp"

namespace millrace::client {

// Errors: engine_failed, naming stream and number.
Result<JobResult> decode_entry(const Entry& entry, const std::string& stream);

// Returns the entry's job as one that failed with `error`.
JobResult failed_result(const Entry& entry, Error error);

// Returns the result, or a failed job if it cannot be decoded.
JobResult result_of(const Entry& entry, const std::string& stream);

}  // namespace millrace::client
