#pragma once
// The engine's options as `run` and `score` take them: checked by the engine, which they are handed
// on to; here only those that shape results are set apart. Thread safety: plain values.
#include <map>
#include <string>
#include <vector>

#include "schemas/base/error.hpp"

namespace CLI {
class App;
}

namespace millrace::client {

struct EngineFlags {
  std::string model;
  std::string program;                        // --engine; empty: beside this program
  std::map<std::string, std::string> values;  // by option name, as given

  std::vector<std::string> arguments() const;  // without --model
  // Those that shape results, defaults filled in, for a run's manifest.
  std::map<std::string, std::string> settings() const;
};

void add_engine_flags(CLI::App& app, EngineFlags& flags);

}  // namespace millrace::client
