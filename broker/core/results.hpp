#pragma once
// Builds the results that the broker publishes: the facts of the job around the engine's bytes,
// which it does not decode, or around an error of its own.
// Thread safety: pure functions.
#include <cstdint>
#include <string>

#include "broker/ledger/ledger.hpp"
#include "schemas/codec.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

// The labels of a job: what its published result repeats beside the columns of the ledger, namely
// its metadata and the warnings about fields that were ignored. Empty where there is neither.
Body labels_of(const DecodedJob& decoded);

// Builds the JobResult of an ended job. The ledger calls this as its Publish function. A job whose
// labels are damaged fails with ledger_corrupt; it keeps the result that it has.
Published published_end(const EndingJob& job, const Outcome& outcome);

// The stream of pushed jobs that were refused, to which no job's own result goes.
inline constexpr const char* rejected_stream = "rejected";

// Builds the JobResult of a pushed job that was refused.
Body published_refusal(const std::string& job, const std::string& custom_id, Error error,
                       std::int64_t now_us);

// Converts an end that an engine sent into a Finish. An unusable end (wrong state, absent result or
// error, a completed job with an error, result too large or nested too deep to be published) makes
// the job fail with engine_failed, and `sound` is false. Cuts the error's texts to their limit.
struct EngineEnd {
  Finish finish;
  bool sound = true;
};
EngineEnd finish_of(JobEnd end, const std::string& engine);

}  // namespace millrace::broker
