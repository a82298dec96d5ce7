#pragma once
// What a `submit` has done, and how the command says it at its end. Thread safety: the main thread.
#include <cstdint>
#include <string>

namespace millrace::client {

struct SubmitTally {
  std::uint64_t jobs = 0;  // of the lines that were read
  std::uint64_t submitted = 0, known = 0, refused = 0, completed = 0, failed = 0;
  std::uint64_t cancelled = 0;                     // of the failed jobs, or of the known ones
  std::uint64_t expired = 0;                       // of the failed jobs
  std::uint64_t warned = 0;                        // lines with warnings
  std::uint64_t left_out = 0;                      // jobs that the broker refused
  std::string first_warned;                        // the place of the first of them
  bool other_batch = false, other_stream = false;  // some lines name their own
  bool closed = false;                             // the batch
};

struct SubmitSummary {
  std::string batch, stream, errors;  // errors: the file of failed lines, or empty
  std::string broker;                 // the flags that name it, for another command
  bool waited = false;
  std::uint64_t shown = 0;  // refused lines whose errors were printed
  bool json = false;
};

void print_submit_summary(const SubmitTally& tally, const SubmitSummary& summary);

}  // namespace millrace::client
