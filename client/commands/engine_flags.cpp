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

}  // namespace millrace::client
