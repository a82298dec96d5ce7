#include "client/commands/engine_flags.hpp"

#include <CLI/CLI.hpp>

#include "engine/core/engine.hpp"

namespace millrace::client {

void add_engine_flags(CLI::App& app, EngineChoice& choice, bool model_required) {
  app.add_option("-m,--model", choice.flags.model,
                 "model file (GGUF), its first part, or a hub's folder")
      ->type_name("FILE")
      ->required(model_required);
  app.add_option("--engine", choice.program, "engine program [millrace-engine beside this one]")
      ->type_name("FILE");
  worker::add_engine_options(app, choice.flags);
}

Status EngineChoice::check() const {
  MILLRACE_ASSIGN(const engine::EngineOptions options, worker::engine_options(flags));
  // Another program checks its model and its options itself.
  return program.empty() ? engine::check_before_device(options) : Status();
}

std::vector<std::string> EngineChoice::arguments() const {
  return worker::engine_arguments(flags);
}

std::map<std::string, std::string> EngineChoice::settings() const {
  std::string kv = flags.kv;
  if (flags.kv_protect != "auto") kv += " --kv-protect " + flags.kv_protect;
  if (!flags.kv_center.empty()) kv += " --kv-center " + flags.kv_center;
  std::map<std::string, std::string> out = {
      {"--device", flags.device}, {"--kv", kv}, {"--math", flags.math}};
  if (!flags.devices.empty()) out["--devices"] = flags.devices;
  if (!flags.pipeline.empty()) out["--pipeline"] = flags.pipeline;
  if (!flags.model_name.empty()) out["--model-name"] = flags.model_name;
  return out;
}

RunOptions run_options(const EngineChoice& choice) {
  RunOptions run;
  run.model = choice.flags.model;
  run.engine = choice.program;
  run.engine_arguments = choice.arguments();
  run.device = choice.flags.device;
  run.devices = choice.flags.devices;
  run.step_limit_s = choice.flags.step_limit_s;
  run.settings = choice.settings();
  return run;
}

BackendOptions backend_options(const EngineChoice& choice, const std::string& folder) {
  BackendOptions options;
  options.folder = folder;
  options.folder_stays = false;
  options.engine = choice.program;
  options.step_limit_s = choice.flags.step_limit_s;
  options.device = choice.flags.device;
  options.devices = choice.flags.devices;
  options.arguments = {"--model", choice.flags.model};
  for (const std::string& word : choice.arguments()) {
    options.arguments.push_back(word);
  }
  return options;
}

Status check_engine_options(const CLI::App& command, const EngineChoice& choice) {
  for (const CLI::Option* option : command.get_options()) {
    const bool of_engine =
        option->get_group() == worker::engine_group || option->check_lname("engine");
    if (of_engine && option->count() > 0 && choice.flags.model.empty()) {
      return fail(Code::usage,
                  option->get_name() + " is an option of the engine that --model starts",
                  "add --model, or give the option to the broker's own millrace-engine");
    }
  }
  return {};
}

}  // namespace millrace::client
