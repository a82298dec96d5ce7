#pragma once
// Sums over the results of jobs: what became of them, their tokens, and how long they took. Thread
// safety: plain values and pure functions.
#include <cstdint>
#include <string>

#include "client/commands/percentiles.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/messages.hpp"

namespace millrace::client {

struct ResultTotals {
  std::uint64_t completed = 0, failed = 0, cancelled = 0, expired = 0;
  std::uint64_t prompt_tokens = 0, cached_tokens = 0, completion_tokens = 0;
  // From the submission: to the first step, to the first token, to the end. The first two are of
  // the last hand-out, by an engine's clock, and so to within the time of a commit.
  Percentiles wait, first_token, whole;

  std::uint64_t jobs() const { return completed + failed + cancelled + expired; }
  void add(const JobResult& result);
};

// "12 ms", "1.25 s", "1 min 20 s"
std::string latency_text(std::uint64_t us);
// "half in 1.2 s, 90 % in 3.1 s, 99 % in 4 s, all in 5 s"; "none" without values.
std::string percentiles_text(const Percentiles& times);
// The totals and, by the seconds of the stretch of time, the rates as members of the open object;
// times in milliseconds.
void write_totals(JsonWriter& out, const ResultTotals& totals, double seconds);

// Mean, percentiles and maximum in milliseconds as a member of that name; nothing without values.
void write_times(JsonWriter& out, const char* name, const Percentiles& times);

}  // namespace millrace::client
