#include "client/run/run.hpp"

#include <filesystem>
#include <memory>

#include "client/lines/input_check.hpp"
#include "client/run/backend.hpp"
#include "client/run/model_identity.hpp"
#include "client/run/run_folder.hpp"
#include "client/run/temporary_place.hpp"
#include "engine/supervise/supervisor.hpp"

namespace millrace::client {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t check_ms = 2'000;

// A run may go on from another folder, and its files may be moved together.
std::string relative_to_output(const std::string& file, const std::string& output) {
  const fs::path folder = fs::absolute(parent_directory(output)).lexically_normal();
  return fs::absolute(file).lexically_normal().lexically_proximate(folder).string();
}

// A model that is no file is identified by its name; the engine refuses it or understands it.
Result<std::string> identity_of(Env& env, const std::string& model) {
  MILLRACE_ASSIGN(const bool is_there, env.exists(model));
  return is_there ? model_identity(env, model) : Result<std::string>("name " + model);
}

void fill_from_output(RunFolder& folder, RunReport& report) {
  RunProgress& progress = report.summary.progress;
  progress.total = folder.manifest().input.lines;
  progress.before = progress.done = folder.output().lines();
  progress.failed = folder.output().failed_lines();
}

// A run that has lines without output goes on first; so does one that was stopped while it ran
// failed lines again, because the same command must go on.
Status begin_retry(RunFolder& folder, const RunOptions& options, RunObserver& observer) {
  const OutputFile& output = folder.output();
  if (!options.retry_failed || output.failed_lines() == 0) {
    return {};
  }
  if (output.lines() < folder.manifest().input.lines) {
    observer.note("retry_later",
                  "lines that have no result yet run first; --retry-failed then runs the failed "
                  "ones again");
    return {};
  }
  observer.note("retry_failed", std::to_string(output.failed_lines()) +
                                    " failed lines are removed from the output and run again");
  return folder.retry_failed();
}

// Says which lines will fail before the engine starts, so that a wrong file costs no time. What
// takes longer is found while the run goes on.
Status check_before(RunFolder& folder, const RunOptions& options, const Clock& clock,
                    RunObserver& observer) {
  const std::int64_t end_us = clock.monotonic_us() + check_ms * us_per_ms;
  InputCheck check{.strict = options.strict, .most_kept = 1};
  check.stop = [&] { return clock.monotonic_us() > end_us; };
  MILLRACE_ASSIGN(const InputReport report, check_input(folder.input(), check));
  if (report.bad == 0) {
    return {};
  }
  const BadInput& first = report.first_bad.front();
  observer.note("input_checked", std::to_string(report.bad) + " of " +
                                     std::string(report.whole ? "" : "the first ") +
                                     std::to_string(report.lines) +
                                     " lines will fail; the first, " + first.place_text + ": " +
                                     first.error.text() + "; millrace check tells the others");
  return {};
}

// Starts broker and engines and runs all lines through them. They have ended when this returns.
Status work(RunFolder& folder, const BackendOptions& backend_options, Env& env, const Clock& clock,
            RunObserver& observer, const RunOptions& options, RunReport& report) {
  MILLRACE_ASSIGN(auto backend, Backend::start(backend_options, env, clock, observer));
  DriverHooks hooks;
  hooks.tick = [&backend] { return backend->tick(); };
  hooks.engine_silent = [&backend](const std::string& name) { backend->engine_silent(name); };
  hooks.engine_starts = [&backend] { return backend->engine_starts(); };
  hooks.engine_met = [&backend] { return backend->engine_met(); };
  hooks.interrupted = options.interrupted;
  DriverOptions driver;
  driver.strict = options.strict;
  // The windows are those of one engine; several hold more jobs at once.
  driver.window_jobs *= backend->engines();
  driver.window_bytes *= backend->engines();
  driver.lines = options.lines;
  Status status = drive(folder, backend->session(), clock, observer, hooks, driver, report.summary);
  backend->stop();
  return status;
}

}  // namespace

Status run_file(const RunOptions& options, RunObserver& observer, RunReport& report) {
  const std::unique_ptr<Env> env = posix_env();
  const SystemClock clock;
  std::map<std::string, std::string> settings = options.settings;
  MILLRACE_ASSIGN(settings["--model"], identity_of(*env, options.model));
  settings["--strict"] = options.strict ? "true" : "false";
  if (!options.errors.empty()) {
    settings["--errors"] = relative_to_output(options.errors, options.output);
  }
  RunPaths paths{options.inputs, options.output, options.errors, {}, options.interrupted};
  TemporaryPlace place;
  const bool prints = options.output == standard_stream;
  if (prints) {
    MILLRACE_ASSIGN(place, TemporaryPlace::make("run"));
    paths.output = place.path() + "/results";
    paths.print = options.print;
  }
  MILLRACE_ASSIGN(RunFolder folder, RunFolder::open(*env, paths, settings, options.restart));
  MILLRACE_TRY(begin_retry(folder, options, observer));
  fill_from_output(folder, report);
  if (folder.output().lines() == folder.manifest().input.lines) {
    report.nothing_to_do = folder.resumed();
    MILLRACE_TRY(folder.output().sync());
    return folder.finish();
  }
  if (folder.resumed()) {
    observer.note("resumed", "going on: " + std::to_string(folder.output().lines()) + " of " +
                                 std::to_string(folder.manifest().input.lines) + " lines are done");
  }
  if (!folder.resumed()) {
    MILLRACE_TRY(check_before(folder, options, clock, observer));
  }
  BackendOptions backend_options;
  backend_options.folder = folder.path("");
  backend_options.folder.pop_back();
  backend_options.folder_stays = !prints;
  backend_options.engine = options.engine;
  // The run refuses another engine after it has joined, so the broker must give it no jobs before.
  backend_options.fingerprint = folder.manifest().fingerprint;
  backend_options.step_limit_s = options.step_limit_s;
  backend_options.device = options.device;
  backend_options.devices = options.devices;
  backend_options.arguments = {"--model", options.model};
  backend_options.arguments.insert(backend_options.arguments.end(),
                                   options.engine_arguments.begin(),
                                   options.engine_arguments.end());
  const Status status = work(folder, backend_options, *env, clock, observer, options, report);
  if (status) {
    return folder.finish();
  }
  if (supervise::is_refusal(status.error().code)) {
    report.undone = folder.undo(UndoLog::remove);
  } else if (folder.replaces()) {
    report.undone = folder.undo(UndoLog::keep);
  }
  return status;
}

}  // namespace millrace::client
