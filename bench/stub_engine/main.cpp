// stub_engine: an engine that needs no model and answers at once. It takes millrace-engine's
// options and ignores those of the model, so that it can replace millrace-engine anywhere.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <string>

#include "bench/stub_engine/stub_executor.hpp"
#include "engine/worker/crash_note.hpp"
#include "engine/worker/fleet_program.hpp"
#include "engine/worker/worker_program.hpp"

int main(int argc, char** argv) {
  using namespace millrace;
  constexpr const char* program = "stub_engine";
  CLI::App app("Takes jobs from a broker and answers them with a fixed text.", program);
  worker::EngineFlags engine_flags;
  worker::ProgramFlags flags;
  worker::StubOptions stub;
  app.add_option("--model", engine_flags.model, "ignored");
  app.add_option("--text", stub.text, "the answer")->capture_default_str();
  // As a list of texts, the option would take one that begins with [ for a list of its own.
  app.add_option_function<std::string>(
         "--tool-call", [&stub](const std::string& call) { stub.tool_calls.push_back(call); },
         "a call of a tool in each answer; may be repeated")
      ->trigger_on_parse();
  app.add_option("--capacity", stub.capacity, "jobs at once")->capture_default_str();
  app.add_option("--rows", stub.rows, "jobs in a step; 0: all")->capture_default_str();
  app.add_option("--step-ms", stub.step_ms, "how long a step takes")->capture_default_str();
  app.add_option("--job-steps", stub.job_steps, "steps of a job")->capture_default_str();
  bool devices_only = false;
  app.add_flag("--print-devices", devices_only, "print a line for each device of --devices");
  worker::add_program_options(app, flags);
  worker::add_engine_options(app, engine_flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const Status begun = worker::begin_program(flags); !begun)
    return worker::report(program, begun.error());
  if (devices_only) {
    std::istringstream devices(engine_flags.devices);
    for (std::string id; std::getline(devices, id, ',');) std::printf("%s - stub\n", id.c_str());
    return 0;
  }
  if (!engine_flags.devices.empty()) {
    return worker::serve_devices(
        engine_flags, flags, program,
        {"--step-ms", std::to_string(stub.step_ms), "--job-steps", std::to_string(stub.job_steps)});
  }
  if (!engine_flags.model_name.empty()) stub.model = engine_flags.model_name;
  worker::leave_crash_note(program, "");
  worker::StubExecutor executor(std::move(stub), worker::TestHooks::from_environment());
  const int code = worker::serve(flags, program, executor);
  std::fflush(nullptr);
  std::_Exit(code);  // does not wait for a step that a test hook hung
}
