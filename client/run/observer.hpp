#pragma once
// What a run tells while it goes, to whoever shows it. Thread safety: called from the run's thread.
#include <cstdint>
#include <string>

#include "schemas/base/error.hpp"

namespace millrace::client {

struct RunProgress {
  std::uint64_t total = 0;   // non-blank input lines
  std::uint64_t done = 0;    // have their output line, of this session and before
  std::uint64_t before = 0;  // of done: had it when this session began, or their result
  std::uint64_t failed = 0;  // of done
  std::uint64_t prompt_tokens = 0, completion_tokens = 0;  // of this session
  std::uint64_t running = 0;                               // handed to the engine
  std::uint32_t engine_starts = 0;
  bool engine_ready = false;         // the one that was started last has joined
  double seconds = 0;                // since this session began
  double ready_seconds = -1;         // of them until the first engine joined; negative: none has
  std::uint64_t done_at_ready = 0;   // lines that were done by then, or before this session
  double tokens_per_second_now = 0;  // as the engine tells; 0 where it does not
};

class RunObserver {
 public:
  virtual ~RunObserver() = default;
  virtual void progress(const RunProgress& progress) = 0;  // often; show what and when you like
  virtual void note(const std::string& event, const std::string& text) = 0;
  virtual void trouble(const std::string& event, const Error& error) = 0;  // and it goes on
};

}  // namespace millrace::client
