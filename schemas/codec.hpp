#pragma once
// Converts msgpack to values and back. Every decode first checks the bytes with the validating
// visitor (schemas/validate.hpp), which allocates nothing, and only then builds values.
// Errors: malformed_frame, invalid_utf8, too_large, limit_exceeded, unknown_kind,
// unsupported_version, missing_field, invalid_value; for jobs also unsupported_field,
// unknown_field, unknown_task. Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/messages.hpp"

namespace millrace {

std::string encode(const Envelope& envelope);
Result<Envelope> decode_envelope(std::string_view frame);
// The id of a frame that decode_envelope refused, so that the answer can repeat it; 0 where none
// can be read.
std::uint64_t peek_id(std::string_view frame);
// The ids in a job that decode_job refused, so that the answer can repeat them; empty where none
// can be read.
struct JobNames {
  std::string id, custom_id;
};
JobNames peek_names(std::string_view job_body);
// The batch that a published result names, without decoding the rest; none where it names none or
// damage comes first.
std::optional<std::string> peek_batch(std::string_view result_body);

std::string_view kind_name(const Message& message);  // "submit"
std::string_view wire_name(JobState state);          // "queued", as messages write it
std::string_view wire_name(FinishReason reason);

// Writes a job map with the fields that differ from their defaults.
std::string encode_job(const Job& job);
struct DecodedJob {
  Job job;
  std::vector<std::string> warnings;  // one for each field that was ignored
};
// Checks types, limits and ranges (check_job in schemas/job_table.hpp). The caller checks whether
// the deadline has passed, the model is served and the prompt fits.
Result<DecodedJob> decode_job(std::string_view body);

std::string encode_result(const JobResult& result);
// The same with a GenerationResult that is msgpack already; empty: there is none. Ignores
// end.result.
std::string encode_result(const JobResult& end, const Body& generation);
std::string encode_generation(const GenerationResult& result);
Result<JobResult> decode_result(std::string_view body);

// The labels that the ledger keeps for the published result. Empty labels are empty bytes.
std::string encode_labels(const JobLabels& labels);
Result<JobLabels> decode_labels(std::string_view bytes);

// Hash of the canonical form (keys sorted, only what the producer gave) of a body that decode_job
// has accepted, as 32 hex digits.
std::string canonical_hash(std::string_view job_body);
// The id of a job that gives none: the same, but that its trace (is_traced) makes no other id.
std::string derived_id(std::string_view job_body);
// Hash of what a job asks for, as 32 hex digits: jobs under one id are compared by it. Defaults
// that are spelled out, other spellings of a value and ignored fields make no difference, nor do
// the times between which it may run, nor the trace (`traceparent` and `tracestate` of its
// metadata), because each try of a traced producer has another one.
std::string job_hash(const Job& job);
bool is_traced(const Job& job);
// The hash of version 3, in which the trace counts.
std::string traced_job_hash(const Job& job);
// The hash of version 2, in which the times and the trace count.
std::string timed_job_hash(const Job& job);
// The version is stored beside the hash, because another version hashes in another way. Ledgers
// hold jobs of version 1, whose hash is canonical_hash of the body, and of versions 2 and 3.
inline constexpr int job_hash_version = 4;

// The seed of a job that gives none: a hash of its custom_id, its prompt and its sampling fields
// (`sampling`, Sampling and LogitEdits) as the job gives them, and of nothing else, also not of
// what a model suggests. So a file gives the same texts whatever its order, whichever engine,
// stream or command runs it, and whatever else is asked for, such as logprobs. At most 53 bits,
// which JSON readers keep exactly.
std::uint64_t derived_seed(const Job& job);

}  // namespace millrace
