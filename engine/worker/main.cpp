// millrace-engine: runs one model on one device for a broker.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/device/driver_cache.hpp"
#include "engine/worker/crash_note.hpp"
#include "engine/worker/engine_executor.hpp"
#include "engine/worker/options.hpp"
#include "engine/worker/worker_program.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/log.hpp"
#include "schemas/describe_result.hpp"

namespace {

using namespace millrace;

constexpr const char* program = "millrace-engine";
constexpr const char* software = "millrace-engine " MILLRACE_VERSION;
constexpr std::uint32_t stop_ms = 2'000;  // a hung step must not keep the process alive

// Beside the jobs in a step some wait, so that a row that ends is replaced within one step.
std::uint32_t capacity(std::uint32_t max_batch) {
  return max_batch + std::max<std::uint32_t>(max_batch / 2, 4);
}

// Damage in PoCL's cache ends the process inside the driver, each time anew, and that when a kernel
// is launched for the first time.
std::string crash_hint() {
  return "if this happens at every start, delete " + engine::pocl_cache_folder() +
         ": damage in this cache of the OpenCL driver PoCL ends the process; it is made anew";
}

// One token, before anybody's job is taken: a driver that fails in its first step must not be
// blamed on jobs.
Status warm_up(engine::Engine& engine) {
  GenerationRequest request;
  request.prompt = Tokens{0};
  request.max_tokens = 1;
  request.sampling.seed = 0;
  MILLRACE_TRY(engine.add(0, request));
  std::vector<engine::Event> events;
  while (engine.busy()) MILLRACE_TRY(engine.step(events));
  for (const engine::Event& event : events)
    if (event.error) return fail(*event.error);
  return {};
}

Result<std::unique_ptr<worker::EngineExecutor>> make_executor(const worker::EngineFlags& flags) {
  MILLRACE_ASSIGN(const engine::EngineOptions options, worker::engine_options(flags));
  log_info("loading the model", {{"file", options.model_path}});
  MILLRACE_ASSIGN(auto made, engine::Engine::create(options));
  const engine::EngineInfo& info = made->info();
  LogFieldList facts;
  fields(facts, info.profile);
  facts.add({"architecture", info.architecture}).add({"device", info.device_name});
  facts.add({"driver", info.driver}).add({"kv_pool_tokens", info.kv_pool_tokens});
  log(LogLevel::info, "engine ready", facts.list());
  worker::leave_crash_note(program, crash_hint());
  MILLRACE_TRY(warm_up(*made));
  return std::make_unique<worker::EngineExecutor>(std::move(made), capacity(options.max_batch),
                                                  worker::TestHooks::from_environment(),
                                                  flags.step_limit_s * 1'000);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Runs a model on an OpenCL device and takes jobs from a broker.", program);
  set_up_help(app);
  app.set_version_flag("--version", software, "print the version");
  app.footer(
      "Example:\n"
      "  millrace-engine --model M.gguf --kv-memory 2GiB\n"
      "\n"
      "Exit codes: 0 drained, 1 the device was lost, 2 usage, 3 refused (model file, device, or by "
      "the broker), 130 interrupted from the keyboard.");
  worker::EngineFlags engine_flags;
  worker::ProgramFlags flags;
  app.add_option("--model", engine_flags.model, "model file (GGUF)")->type_name("FILE")->required();
  worker::add_engine_options(app, engine_flags);
  worker::add_program_options(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  if (const Status begun = worker::begin_program(flags); !begun)
    return worker::report(program, begun.error());
  auto executor = make_executor(engine_flags);
  if (!executor) return worker::report(program, executor.error());
  const int code = worker::serve(flags, software, **executor);
  if ((*executor)->stop(stop_ms)) return code;
  log_warn("the step under way does not end; leaving without it");
  std::fflush(nullptr);
  std::_Exit(code);
}
