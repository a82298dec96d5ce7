#pragma once
// msgpack to values and back. Every decode first walks the bytes with the validating visitor
// (schemas/validate.hpp), which allocates nothing, and only then builds values.
// Errors: malformed_frame, invalid_utf8, too_large, limit_exceeded, unknown_kind,
// unsupported_version, missing_field, invalid_value; for jobs also unsupported_field,
// unknown_field, unknown_task. Thread safety: pure functions.
#include <string>
#include <string_view>
#include <vector>

#include "schemas/messages.hpp"

namespace millrace {

std::string encode(const Envelope& envelope);
Result<Envelope> decode_envelope(std::string_view frame);

// A job map. Only fields that differ from their default are written.
std::string encode_job(const Job& job);
struct DecodedJob {
  Job job;
  std::vector<std::string> warnings;  // one a field that was kept out
};
Result<DecodedJob> decode_job(std::string_view body);

std::string encode_result(const JobResult& result);
Result<JobResult> decode_result(std::string_view body);

// Hash of the canonical form (keys sorted, only what the producer gave), as 32 hex digits.
// `version` is stored beside it; a later version may hash otherwise.
inline constexpr int canonical_hash_version = 1;
Result<std::string> canonical_hash(std::string_view job_body);

}  // namespace millrace
