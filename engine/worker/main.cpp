// millrace-engine: runs one model on one device for a broker, or keeps an engine on each of several
// devices alive.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/device/device.hpp"
#include "engine/core/device/helper_program.hpp"
#include "engine/worker/driver_guard.hpp"
#include "engine/worker/engine_executor.hpp"
#include "engine/worker/fleet_program.hpp"
#include "engine/worker/options.hpp"
#include "engine/worker/start_watch.hpp"
#include "engine/worker/worker_program.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/command_usage.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/service_manager.hpp"
#include "schemas/describe_result.hpp"

namespace {

using namespace millrace;

constexpr const char* program = "millrace-engine";
constexpr const char* software = "millrace-engine " MILLRACE_VERSION;
constexpr std::uint32_t stop_ms = 2'000;  // a hung step must not keep the process alive

// Some jobs wait beside those in a step, so that a row that ends is replaced within one step.
std::uint32_t capacity(std::uint32_t max_batch) {
  return max_batch + std::max<std::uint32_t>(max_batch / 2, 4);
}

// Runs steps of two tokens and of one token before the first job is taken, so that no job is blamed
// for a driver that fails when a kernel is first launched.
Status warm_up(engine::Engine& engine) {
  constexpr std::uint32_t prompt_tokens = 2, most_tokens = 2;
  GenerationRequest request;
  const bool room = engine.info().profile.facts.context_tokens > prompt_tokens + most_tokens;
  request.prompt = Tokens(room ? prompt_tokens : 1);
  request.max_tokens = room ? most_tokens : 1;
  request.stops.ignore_eos = true;
  request.sampling.seed = 0;
  MILLRACE_TRY(engine.add(0, request));
  std::vector<engine::Event> events;
  while (engine.busy()) MILLRACE_TRY(engine.step(events));
  for (const engine::Event& event : events)
    if (event.error) return fail(*event.error);
  return {};
}

Result<std::unique_ptr<worker::EngineExecutor>> make_executor(const engine::EngineOptions& options,
                                                              std::uint32_t step_limit_s) {
  log_info("loading the model", {{"file", options.model_path}});
  MILLRACE_ASSIGN(auto made, engine::Engine::create(options));
  const engine::EngineInfo& info = made->info();
  LogFieldList facts;
  fields(facts, info.profile);
  facts.add({"architecture", info.architecture}).add({"device", info.device_name});
  facts.add({"driver", info.driver}).add({"kv_pool_tokens", info.kv_pool_tokens});
  log(LogLevel::info, "engine ready", facts.list());
  {
    const worker::StartWatch watch(program, step_limit_s);
    MILLRACE_TRY(warm_up(*made));
  }
  return std::make_unique<worker::EngineExecutor>(std::move(made), capacity(options.max_batch),
                                                  worker::TestHooks::from_environment(),
                                                  step_limit_s * 1'000);
}

int print_operations(const engine::EngineOptions& options, worker::DriverGuard& guard) {
  auto made = engine::Engine::create(options);
  if (!made) return worker::report(program, guard.failed(std::move(made).error()));
  guard.succeeded();
  std::fputs((*made)->info().program.c_str(), stdout);
  return 0;
}

// A line for each device: its numbers, its uuid or "-", and its name.
int print_devices(const worker::EngineFlags& flags) {
  const auto devices = flags.devices.empty() ? engine::list_devices()
                                             : engine::chosen_devices(flags.device, flags.devices);
  if (!devices) return worker::report(program, devices.error());
  for (const engine::DeviceInfo& device : *devices) {
    std::printf("%u:%u %s %s\n", device.platform_index, device.device_index,
                device.uuid.empty() ? "-" : device.uuid.c_str(), device.name.c_str());
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && argv[1] == engine::program_helper_flag) return engine::run_program_helper();
  CLI::App app("Runs a model on an OpenCL device and takes jobs from a broker.", program);
  set_up_help(app);
  app.set_version_flag("--version", software, "print the version");
  app.footer(
      "Example:\n"
      "  millrace-engine --model M.gguf --kv-memory 2GiB\n"
      "\n"
      "Exit codes: 0 drained, 1 the device was lost, 2 usage, 3 refused (model file, device, or by "
      "the broker), 130 interrupted from the keyboard. With --devices, an engine that ends is "
      "started again, and 1 means that some were given up.");
  worker::EngineFlags engine_flags;
  worker::ProgramFlags flags;
  app.add_option("--model", engine_flags.model,
                 "model file (GGUF), the first part of one, or a folder of a hub")
      ->type_name("FILE")
      ->required();
  bool print_program = false;
  app.add_flag("--print-program", print_program,
               "print the operations of the model's layers, and end");
  bool devices_only = false;
  app.add_flag("--print-devices", devices_only)->group("");  // for a supervisor; not in the help
  worker::add_engine_options(app, engine_flags);
  worker::add_program_options(app, flags);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help and version
    return worker::report(program, usage_error(app, error));
  }
  if (const Status begun = worker::begin_program(flags); !begun)
    return worker::report(program, begun.error());
  auto options = worker::engine_options(engine_flags);
  if (!options) return worker::report(program, options.error());
  options->program_helper = "/proc/self/exe";
  if (!engine_flags.devices.empty() && !devices_only) {
    return worker::serve_devices(engine_flags, flags, program);
  }
  worker::DriverGuard guard(program, argv, {.device = options->device, .cores = options->cores});
  if (devices_only) return print_devices(engine_flags);
  if (print_program) return print_operations(*options, guard);
  auto executor = make_executor(*options, engine_flags.step_limit_s);
  if (!executor) return worker::report(program, guard.failed(std::move(executor).error()));
  guard.succeeded();
  tell_ready();
  const int code = worker::serve(flags, software, **executor);
  const bool has_ended = (*executor)->stop(stop_ms);
  if (!has_ended) log_warn("the current step does not end; leaving without it");
  // The driver of a device that was lost may fault when its objects are released.
  if (has_ended && code != worker::device_lost_status) return code;
  std::fflush(nullptr);
  std::_Exit(code);
}
