#pragma once
// What a run was when it began, in OUTPUT.millrace/manifest.json: the input, the settings that
// shape results, and the numeric fingerprint and KV policy of the engine that first joined. A run
// that goes on must be the same; what only costs time (batch size, KV memory, threads) may change,
// as long as --kv auto comes to the same policy.
// Errors: io_error, ledger_corrupt (not a manifest), ledger_newer, settings_changed.
// Thread safety: plain values.
#include <cstdint>
#include <map>
#include <string>

#include "client/run/line_index.hpp"
#include "schemas/base/env.hpp"

namespace millrace::client {

inline constexpr int manifest_version = 1;

// What --kv came to. Both are empty where an engine or an earlier version does not tell.
struct EffectiveKv {
  std::string policy, layers;  // as --kv takes it, "k8v4", and by layer, "q8g64/r4 x30"
  friend bool operator==(const EffectiveKv&, const EffectiveKv&) = default;
};

struct Manifest {
  std::string input_path;
  InputSummary input;
  std::map<std::string, std::string> settings;  // by option name, e.g. {"--kv", "f16"}
  std::string fingerprint;                      // empty until an engine has joined
  EffectiveKv kv;                               // of that engine
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

Status save_manifest(Env& env, const std::string& path, const Manifest& manifest);
Result<Manifest> load_manifest(Env& env, const std::string& path);

// KV policies are compared by what they mean; what auto came to may be given by name. Errors:
// settings_changed, naming the first setting that differs, both values and --restart.
Status check_settings(const Manifest& before, const std::map<std::string, std::string>& now);
// That an engine is another one than the first: settings_changed, by the KV policies if they
// differ.
Error other_engine(const Manifest& before, const std::string& fingerprint, const EffectiveKv& kv);

}  // namespace millrace::client
