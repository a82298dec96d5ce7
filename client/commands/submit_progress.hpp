#pragma once
// Shows how far `submit --wait` is: asks the broker about its engines and the batch once a second,
// and passes what it learns to a RunConsole. Errors: none of its own. Thread safety: one thread.
#include <cstdint>
#include <string>

#include "client/commands/run_console.hpp"
#include "client/link/event_loop.hpp"
#include "client/run/observer.hpp"
#include "schemas/job.hpp"

namespace millrace::client {

class SubmitProgress final : public EventHandler {
 public:
  SubmitProgress(Session& session, const Clock& clock, RunConsole& console, std::string batch,
                 std::uint64_t lines);

  void known_end() { ++known_ends_; }  // a job had ended before it was submitted now
  void ended(const JobResult& result);
  void refused();  // a line that is no job

  Status tick() override;
  Result<bool> take(Envelope& answer) override;

 private:
  double seconds() const;
  void note_end(bool failed);

  Session& session_;
  const Clock& clock_;
  RunConsole& console_;
  std::string batch_;
  RunProgress progress_;
  std::uint64_t known_ends_ = 0;
  std::uint64_t refused_ = 0;
  std::uint64_t question_ = 0;  // 0: none is open
  std::int64_t started_us_, asked_us_ = 0;
};

}  // namespace millrace::client
