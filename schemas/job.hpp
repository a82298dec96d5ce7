#pragma once
// A job as producers submit it, and its result as the broker stores and publishes it.
// schemas/docs/messages.md has the wire form, field by field; schemas/codec.hpp encodes and
// decodes. Thread safety: plain values.
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/generation.hpp"
#include "schemas/base/limits.hpp"

namespace millrace {

struct Job {
  // Queue
  std::string id;           // chosen by the producer; empty: the broker derives one from the body
  std::string custom_id;    // a label that the result repeats
  std::string model = "*";  // "*" matches any engine
  std::uint32_t priority = limits::priority_default;
  std::optional<std::int64_t> not_before_us;  // Unix time; it is not handed out before
  std::optional<std::int64_t> deadline_us;    // Unix time; a job that has not ended then expires
  std::uint32_t max_attempts = limits::max_attempts_default;
  std::string stream = "results";
  std::string batch;  // empty: none
  std::map<std::string, std::string> metadata;
  bool strict = false;  // refuse unknown fields instead of warning
  // Generation
  GenerationRequest request;
  friend bool operator==(const Job&, const Job&) = default;
};

enum class JobState : std::uint8_t { queued, leased, completed, failed, cancelled, expired };
constexpr bool is_end(JobState s) {
  return s != JobState::queued && s != JobState::leased;
}

struct JobCounts {
  std::uint64_t queued = 0, leased = 0, completed = 0, failed = 0, cancelled = 0, expired = 0;
  friend bool operator==(const JobCounts&, const JobCounts&) = default;
};

// The end of one job. It has either a `result` (completed, or cancelled after an engine began it)
// or an `error`.
struct JobResult {
  std::string job;
  std::string custom_id;
  std::string model;  // as the job named it
  std::string batch;  // empty: none
  JobState state = JobState::completed;
  std::optional<GenerationResult> result;
  std::optional<Error> error;
  std::vector<std::string> warnings;  // unknown fields that were ignored, and the like
  std::map<std::string, std::string> metadata;
  std::uint32_t attempts = 0;     // hand-outs, this one included
  std::int64_t submitted_us = 0;  // Unix times, by the broker's clock
  std::int64_t ended_us = 0;
  // The entry tells the end of a batch, named `batch`, and no job's: how its jobs ended.
  std::optional<JobCounts> counts;
  friend bool operator==(const JobResult&, const JobResult&) = default;
};

// The parts of a job that only its published result uses.
struct JobLabels {
  std::map<std::string, std::string> metadata;
  std::vector<std::string> warnings;
  friend bool operator==(const JobLabels&, const JobLabels&) = default;
};

}  // namespace millrace
