#pragma once
// Receives what a run reports, to show it. Thread safety: called from the run's thread.
#include <cstdint>
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::client {

struct RunProgress {
  std::uint64_t total = 0;   // non-blank input lines
  std::uint64_t done = 0;    // lines in the output
  std::uint64_t before = 0;  // of done: lines whose output or result existed before this session
  std::uint64_t failed = 0;  // of done
  std::uint64_t prompt_tokens = 0, completion_tokens = 0;  // of this session
  std::uint64_t cached_tokens = 0;                         // of prompt_tokens
  std::uint64_t running = 0;                               // jobs that the engine holds
  std::uint32_t engine_starts = 0;
  bool engine_ready = false;         // the engine that was started last has joined
  bool own_engine = true;            // the command starts it; otherwise one may come, or not
  double seconds = 0;                // since this session began
  double ended_seconds = 0;          // the same, when the last job ended
  double ready_seconds = -1;         // until the first engine joined; negative: none has
  std::uint64_t done_at_ready = 0;   // lines that were done by then, or before this session
  double tokens_per_second_now = 0;  // as the engine reports; 0 if it does not
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void progress(const RunProgress& progress) = 0;  // called often; need not show each
  virtual void note(const std::string& event, const std::string& text) = 0;
  virtual void trouble(const std::string& event, const Error& error) = 0;  // the run goes on
};

}  // namespace millrace::client
