#pragma once
// The loop of a run: submits the input lines to the broker and writes the results to the output.
// Reading pauses while too many lines have no output yet. One thread does everything in an
// EventLoop and watches the engine in between.
//
// A line is submitted unless the output holds it. Submitting again what the ledger knows is
// harmless, because jobs are idempotent by id. A result is written unless the output holds it. The
// output is synced, then the checkpoint is saved, then the ledger's cursor moves.
// Errors: interrupted, input_changed, disk_full, io_error, settings_changed, engine_failed and the
// broker's refusals. After any of them the same command goes on. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "client/lines/result_line.hpp"
#include "client/link/session.hpp"
#include "client/run/observer.hpp"
#include "client/run/run_folder.hpp"

namespace millrace::client {

struct DriverOptions {
  bool strict = false;
  std::uint64_t window_jobs = 8'192;              // submitted and not yet in the output
  std::uint64_t window_bytes = 64 * limits::MiB;  // of their bodies
  std::uint32_t sync_ms = 1'000;                  // between syncs of the output
  std::uint32_t status_ms = 1'000;                // between questions about the engine
  ResultLineOptions lines;
};

// What the driver needs from its caller. Each call is short.
struct DriverHooks {
  std::function<Status()> tick;  // watches the engine processes
  // Called when an engine is missing at the broker for long.
  std::function<void(const std::string& name)> engine_silent;
  std::function<bool()> interrupted;  // true when a signal asked to stop
  std::function<std::uint32_t()> engine_starts;
  // True once an engine has joined. The status answers tell it too, but too late for a run that
  // ends before the first of them.
  std::function<bool()> engine_met;
};

struct FailedLine {
  InputPlace place;
  std::string place_text;  // "line 7", of several inputs "b.jsonl line 2"
  std::string custom_id;
  Error error;
};

struct WarnedLine {
  std::uint64_t line = 0;  // counted through all inputs
  InputPlace place;
  std::string place_text;
  std::string custom_id;
  std::string warning;  // the first one of the line
};

struct RunSummary {
  RunProgress progress;
  std::vector<FailedLine> failures;        // the first few of this session
  std::uint64_t warned = 0;                // lines with warnings in this session
  std::optional<WarnedLine> first_warned;  // the one with the lowest line number
};

// Runs until every line has its output. `summary` is filled in on errors, too.
Status drive(RunFolder& folder, Session& session, const Clock& clock, RunObserver& observer,
             const DriverHooks& hooks, const DriverOptions& options, RunSummary& summary);

}  // namespace millrace::client
