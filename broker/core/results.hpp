#pragma once
// What the broker publishes of a job's end: its own facts around the engine's bytes, which it does
// not take apart, or an error of its own.
// Thread safety: pure functions.
#include <cstdint>
#include <string>

#include "broker/ledger/ledger.hpp"
#include "schemas/codec.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

// What a job's published result repeats of it beside the columns of the ledger: its metadata and
// the names of fields that were left out. Empty where there is neither.
Body labels_of(const DecodedJob& decoded);

// For the ledger (Publish): the JobResult of an ended job.
Body published_end(const EndingJob& job, const Outcome& outcome);

// The JobResult of a pushed job that was refused.
Body published_refusal(const std::string& job, const std::string& custom_id, Error error,
                       std::int64_t now_us);

// The Finish of an engine's end. What is wrong with the end (its state, an absent result or error,
// its size) makes the job fail with engine_failed, and says so.
struct EngineEnd {
  Finish finish;
  bool sound = true;
};
EngineEnd finish_of(JobEnd end, const std::string& engine);

}  // namespace millrace::broker
