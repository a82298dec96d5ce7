#pragma once
// What a run was when it began, in OUTPUT.millrace/manifest.json: the input, the settings that
// shape results, and the numeric fingerprint of the engine that first joined. A run that goes on
// must be the same; what only costs time (batch size, KV memory, threads) may change.
// Errors: io_error, ledger_corrupt (not a manifest), ledger_newer, settings_changed.
// Thread safety: plain values.
#include <cstdint>
#include <map>
#include <string>

#include "client/run/line_index.hpp"
#include "schemas/base/env.hpp"

namespace millrace::client {

inline constexpr int manifest_version = 1;

struct Manifest {
  std::string input_path;
  InputSummary input;
  std::map<std::string, std::string> settings;  // by option name, e.g. {"--kv", "f16"}
  std::string fingerprint;                      // empty until an engine has joined
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

Status save_manifest(Env& env, const std::string& path, const Manifest& manifest);
Result<Manifest> load_manifest(Env& env, const std::string& path);

// Errors: settings_changed, naming the first setting that differs, both values and --restart.
Status check_settings(const Manifest& before, const std::map<std::string, std::string>& now);

}  // namespace millrace::client
