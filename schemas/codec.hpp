#pragma once
// msgpack to values and back. Every decode first walks the bytes with the validating visitor
// (schemas/validate.hpp), which allocates nothing, and only then builds values.
// Errors: malformed_frame, invalid_utf8, too_large, limit_exceeded, unknown_kind,
// unsupported_version, missing_field, invalid_value; for jobs also unsupported_field,
// unknown_field, unknown_task. Thread safety: pure functions.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/messages.hpp"

namespace millrace {

std::string encode(const Envelope& envelope);
Result<Envelope> decode_envelope(std::string_view frame);
// The id of a frame that decode_envelope refused, so that the refusal can name it; 0 where none can
// be read.
std::uint64_t peek_id(std::string_view frame);

std::string_view kind_name(const Message& message);  // "submit"
std::span<const std::string_view> kind_names();      // all, in the order of Message's alternatives
std::string_view wire_name(JobState state);          // as on the wire: "queued"
std::string_view wire_name(FinishReason reason);
std::string_view wire_name(Task task);
std::string_view wire_name(LogprobMode mode);
std::string_view wire_name(PenaltyScope scope);
std::string_view wire_name(MarkedPart part);
std::string_view wire_name(Role role);

// A job map. Only fields that differ from their default are written.
std::string encode_job(const Job& job);
struct DecodedJob {
  Job job;
  std::vector<std::string> warnings;  // one a field that was kept out
};
// Types, limits and ranges are checked (check_job in schemas/fields.hpp); whether the deadline has
// passed, the model is served or the prompt fits is for those who know.
Result<DecodedJob> decode_job(std::string_view body);

std::string encode_result(const JobResult& result);
Result<JobResult> decode_result(std::string_view body);

// Hash of the canonical form (keys sorted, only what the producer gave), as 32 hex digits.
// `version` is stored beside it; a later version may hash otherwise.
inline constexpr int canonical_hash_version = 1;
Result<std::string> canonical_hash(std::string_view job_body);

// The seed of a job that gives none: a hash of custom_id and what is asked of the model, so that a
// file gives the same text whatever its order, queue, stream or priority. At most 53 bits, which
// JSON readers keep exactly.
std::uint64_t derived_seed(const Job& job);

}  // namespace millrace
