#pragma once
// The engine options of `run` and `score`. They are those of engine/worker and go to the child
// process. settings() picks the ones that change results. Thread safety: plain values.
#include <map>
#include <string>
#include <vector>

#include "client/run/backend.hpp"
#include "client/run/run.hpp"
#include "engine/worker/options.hpp"
#include "schemas/base/error.hpp"

namespace millrace::client {

struct EngineChoice {
  worker::EngineFlags flags;
  std::string program;  // --engine; empty: millrace-engine beside this program

  Status check() const;                        // makes the checks that the engine will make
  std::vector<std::string> arguments() const;  // as engine_arguments
  // The options that change results, for the manifest of a run.
  std::map<std::string, std::string> settings() const;
};

void add_engine_flags(CLI::App& app, EngineChoice& choice, bool model_required);

// What a run, or a backend in a temporary folder, takes of these options.
RunOptions run_options(const EngineChoice& choice);
BackendOptions backend_options(const EngineChoice& choice, const std::string& folder);
// Refuses options of the engine where --model, which starts it, is not given: they would be ignored
// in silence. Errors: usage.
Status check_engine_options(const CLI::App& command, const EngineChoice& choice);

}  // namespace millrace::client
