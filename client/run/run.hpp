#pragma once
// `millrace run`: a file of jobs to a file of results, with broker and engine inside. Run again
// after whatever stopped it, it goes on.
// Errors: those of RunFolder, Backend and the driver. Thread safety: one thread.
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/run/driver.hpp"
#include "client/run/observer.hpp"

namespace millrace::client {

struct RunOptions {
  std::string model, input, output;
  std::string engine;                           // program; empty: beside this one
  std::vector<std::string> engine_arguments;    // --model and --broker excluded
  std::uint32_t step_limit_s = 120;             // the engine's own, among them
  std::map<std::string, std::string> settings;  // those that shape results, for the manifest
  bool restart = false;
  bool strict = false;
  std::function<bool()> interrupted;  // a signal asked to stop
  ResultLineOptions lines;
};

struct RunReport {
  RunSummary summary;
  bool nothing_to_do = false;  // every line had its output line already
  bool undone = false;         // nothing could begin: what was there before is as it was
};

// `report` is filled in as far as the run came, also where it fails.
Status run_file(const RunOptions& options, RunObserver& observer, RunReport& report);

}  // namespace millrace::client
