#pragma once
// Prints the progress of a run (one redrawn line on a terminal, a line every few seconds elsewhere,
// JSON events with --json) and the summary at its end. Progress goes to standard error, summary and
// JSON to standard output, or where the results go there to standard error, too.
// Thread safety: the run's thread.
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "client/run/observer.hpp"
#include "client/run/run.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::client {

struct Place {
  std::string name;   // the field of a JSON event
  std::string label;  // what a person reads
  std::string address;
};

class RunConsole final : public RunObserver {
 public:
  // `out` receives the summary and the JSON events.
  RunConsole(bool json, const Clock& clock, std::FILE* out);
  ~RunConsole() override;

  void progress(const RunProgress& progress) override;
  void note(const std::string& event, const std::string& text) override;
  void trouble(const std::string& event, const Error& error) override;

  // A note with the addresses that it is about: fields of its event, or a line each.
  void places(const std::string& event, const std::string& message,
              const std::vector<Place>& places);

  // Writes result lines to standard output. Errors: io_error.
  Status print_results(std::string_view lines);
  void summary(const RunReport& report, const RunOptions& options);
  void clear_line();  // call this before anything else is written to the terminal

 private:
  void print(const std::string& line);
  void summary_json(const RunReport& report, const RunOptions& options);

  bool json_;
  bool terminal_;
  const Clock& clock_;
  std::FILE* out_;
  std::int64_t shown_us_;
  bool line_shown_ = false;
};

}  // namespace millrace::client
