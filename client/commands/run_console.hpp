#pragma once
// Prints the progress of a run (one redrawn line on a terminal, a line every few seconds elsewhere,
// JSON events with --json) and the summary at its end. Progress goes to standard error, summary and
// JSON to standard output. Thread safety: the run's thread.
#include <cstdint>
#include <string>

#include "client/run/observer.hpp"
#include "client/run/run.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::client {

class RunConsole final : public RunObserver {
 public:
  RunConsole(bool json, const Clock& clock);
  ~RunConsole() override;

  void progress(const RunProgress& progress) override;
  void note(const std::string& event, const std::string& text) override;
  void trouble(const std::string& event, const Error& error) override;

  void summary(const RunReport& report, const std::string& output);

 private:
  void clear_line();

  bool json_;
  bool terminal_;
  const Clock& clock_;
  std::int64_t shown_us_;
  bool line_shown_ = false;
};

}  // namespace millrace::client
