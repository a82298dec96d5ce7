#pragma once
// `millrace run`: runs a file of jobs and writes a file of results, with an embedded broker and an
// engine process. Called again after whatever stopped it, it goes on.
// Errors: those of RunFolder, Backend and the driver. Thread safety: one thread.
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "client/run/driver.hpp"
#include "client/run/observer.hpp"

namespace millrace::client {

struct RunOptions {
  std::string model;
  std::vector<std::string> inputs;  // "-" is standard input, which the run keeps in its folder
  std::string output;               // "-": the lines go to `print`, and the run cannot go on later
  std::string errors;               // file of the failed lines; empty: they are in the output
  std::function<Status(std::string_view)> print;
  std::string engine;                           // program; empty: millrace-engine beside this one
  std::vector<std::string> engine_arguments;    // without --model, --broker and the device
  std::string device, devices;                  // as BackendOptions
  std::uint32_t step_limit_s = 120;             // the engine's --step-limit
  std::map<std::string, std::string> settings;  // options that change results, for the manifest
  bool restart = false;
  bool retry_failed = false;  // of a run whose output holds every line, run the failed ones again
  bool strict = false;
  std::function<bool()> interrupted;  // true when a signal asked to stop
  ResultLineOptions lines;
};

struct RunReport {
  RunSummary summary;
  bool nothing_to_do = false;  // every line had its output line already
  bool undone = false;         // the run could not begin, and all files are as they were before
};

// Fills in `report` as far as the run came, also if it fails.
Status run_file(const RunOptions& options, RunObserver& observer, RunReport& report);

}  // namespace millrace::client
