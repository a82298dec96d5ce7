#pragma once
// The engine as `run` and `score` take it: its options are engine/worker's own and are handed on to
// the child process; those that shape results are set apart here. Thread safety: plain values.
#include <map>
#include <string>
#include <vector>

#include "engine/worker/options.hpp"
#include "schemas/base/error.hpp"

namespace millrace::client {

struct EngineChoice {
  worker::EngineFlags flags;
  std::string program;  // --engine; empty: beside this program

  Status check() const;                        // as the engine will check them
  std::vector<std::string> arguments() const;  // without --model
  // Those that shape results, for a run's manifest.
  std::map<std::string, std::string> settings() const;
};

void add_engine_flags(CLI::App& app, EngineChoice& choice, bool model_required);

}  // namespace millrace::client
