#pragma once
// The results that the broker writes itself, and its part of those that engines send.
// Thread safety: pure functions.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "broker/ledger/ledger.hpp"
#include "schemas/codec.hpp"
#include "schemas/messages.hpp"

namespace millrace::broker {

// What the broker knows about a job when it ends.
struct JobFacts {
  std::string job, custom_id, model, batch, stream;
  std::uint32_t attempts = 0;
  std::int64_t submitted_us = 0, ended_us = 0;
  std::map<std::string, std::string> metadata;
  std::vector<std::string> warnings;
};
// What a stored job says of itself; empty where it cannot be read.
JobFacts facts_of(const Body& job_body);

// The result of a job that ended without an engine's word.
Body ended_body(const JobFacts& facts, JobState state, Error error);

// For the ledger, which calls it where an operation itself ends a job.
Body end_body(const EndingJob& job, JobState state, Code reason, std::int64_t now_us);

// An engine's result with the broker's facts put in; facts.job empty: not known here. What is wrong
// with it (unreadable, of another state or job, over its size) makes the job fail with
// engine_failed, and says so.
struct EngineResult {
  JobState state = JobState::failed;
  Body body;
  bool sound = true;
};
EngineResult complete_result(const JobEnd& end, const JobFacts& facts);

}  // namespace millrace::broker
