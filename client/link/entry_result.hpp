#pragma once
// The result that an entry of a stream holds. The bytes are an engine's, and an engine may have
// written anything: a reader reports what cannot be decoded as a failed job, and reads on.
// Thread safety: pure functions.
#include <string>

#include "schemas/messages.hpp"

namespace millrace::client {

// Errors: malformed_frame, naming stream and number.
Result<JobResult> decode_entry(const Entry& entry, const std::string& stream);

// The entry's job as one that failed with `error`.
JobResult failed_result(const Entry& entry, Error error);

// The result, or the failed job where it cannot be decoded.
JobResult result_of(const Entry& entry, const std::string& stream);

}  // namespace millrace::client
