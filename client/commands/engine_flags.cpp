#include "client/commands/engine_flags.hpp"

#include <CLI/CLI.hpp>

namespace millrace::client {
namespace {

struct EngineOption {
  const char* name;
  const char* about;
  const char* shapes_results;  // its default where it does, else null
};

constexpr EngineOption options[] = {
    {"--device", "OpenCL device: PLATFORM:DEVICE or part of its name", ""},
    {"--kv", "KV policy", "f16"},
    {"--math", "exact (fp32 activations) or fast", "exact"},
    {"--kv-memory", "memory of the KV pool, e.g. 2GiB", nullptr},
    {"--max-batch", "most sequences in one step", nullptr},
    {"--step-tokens", "most tokens in one step", nullptr},
    {"--prefill-chunk", "most prompt tokens of one sequence in one step", nullptr},
};

}  // namespace

void add_engine_flags(CLI::App& app, EngineFlags& flags) {
  app.add_option("-m,--model", flags.model, "model file (GGUF)")->required();
  app.add_option("--engine", flags.program, "engine program [millrace-engine beside this one]");
  for (const EngineOption& option : options) {
    app.add_option_function<std::string>(
        option.name,
        [&flags, &option](const std::string& value) { flags.values[option.name] = value; },
        option.about);
  }
}

std::vector<std::string> EngineFlags::arguments() const {
  std::vector<std::string> words;
  for (const auto& [name, value] : values) {
    words.push_back(name);
    words.push_back(value);
  }
  return words;
}

std::map<std::string, std::string> EngineFlags::settings() const {
  std::map<std::string, std::string> shaping;
  for (const EngineOption& option : options) {
    if (option.shapes_results != nullptr) {
      const auto given = values.find(option.name);
      shaping[option.name] = given == values.end() ? option.shapes_results : given->second;
    }
  }
  return shaping;
}

}  // namespace millrace::client
