#pragma once
// The manifest of a run, OUTPUT.millrace/manifest.json, records how the run began: the input, the
// settings that change results, and the numeric fingerprint and KV policy of the engine that first
// joined. A run may go on only with the same. Settings that only cost time (batch size, KV memory,
// threads) may change, as long as --kv auto chooses the same policy.
// Errors: io_error, ledger_corrupt (not a manifest), ledger_newer, settings_changed.
// Thread safety: plain values.
#include <cstdint>
#include <map>
#include <string>

#include "client/run/line_index.hpp"
#include "schemas/base/env.hpp"

namespace millrace::client {

inline constexpr int manifest_version = 2;  // 1 where no failed line was run again

// The KV policy that an engine chose for --kv. Both members are empty if the engine, or an earlier
// version, does not report it.
struct EffectiveKv {
  std::string policy, layers;  // as an argument of --kv, "k8v4", and by layer, "q8g64/r4 x30"
  friend bool operator==(const EffectiveKv&, const EffectiveKv&) = default;
};

struct Manifest {
  std::string input_path;
  InputSummary input;
  std::map<std::string, std::string> settings;  // by option name, e.g. {"--kv", "f16"}
  std::string fingerprint;                      // empty until an engine has joined
  EffectiveKv kv;                               // of that engine
  // How often failed lines were run again. The jobs that are submitted since then have it in their
  // ids, because the ledger knows the failed ones.
  std::uint32_t retries = 0;
  friend bool operator==(const Manifest&, const Manifest&) = default;
};

Status save_manifest(Env& env, const std::string& path, const Manifest& manifest);
Result<Manifest> load_manifest(Env& env, const std::string& path);

// Compares the settings of a run that goes on with those that it began with. KV policies are
// compared by what they mean, and the policy that auto chose may be given by name. Errors:
// settings_changed, naming the first setting that differs, both values and --restart.
Status check_settings(const Manifest& before, const std::map<std::string, std::string>& now);
// Returns the error for an engine that differs from the first one: settings_changed, which names
// the KV policies if they differ.
Error other_engine(const Manifest& before, const std::string& fingerprint, const EffectiveKv& kv);

}  // namespace millrace::client
