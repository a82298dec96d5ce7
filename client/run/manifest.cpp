#include "client/run/manifest.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "schemas/base/json_writer.hpp"
#include "schemas/base/kv_policy.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

std::string or_nothing(const std::map<std::string, std::string>& settings,
                       const std::string& name) {
  const auto at = settings.find(name);
  return at == settings.end() ? "not given" : "\"" + at->second + "\"";
}

// The setting as EngineChoice::settings() writes it: "k5v3 --kv-protect first:2 --kv-center FILE".
struct KvSetting {
  std::string policy, center;
};

KvSetting read_kv(const std::string& text) {
  constexpr std::string_view protect_option = " --kv-protect ";
  const std::size_t center = std::min(text.find(" --kv-center "), text.size());
  KvSetting out{text.substr(0, center), text.substr(center)};
  const std::size_t protect = out.policy.find(protect_option);
  if (protect != std::string::npos) {
    const auto kept = parse_kv_protection(out.policy.substr(protect + protect_option.size()));
    if (kept) out.policy.replace(protect, std::string::npos, kept->name());
  }
  out.policy = canonical_kv(out.policy).value_or(out.policy);
  return out;
}

bool is_auto(const std::string& policy) {
  return policy.substr(0, policy.find_first_of("~+")) == "auto";
}

std::string named(const EffectiveKv& kv) {
  return kv.policy.empty() ? kv.layers : kv.policy + " (" + kv.layers + ")";
}

bool same_kv(const Manifest& before, const std::string& then_value, const std::string& now_value) {
  KvSetting then = read_kv(then_value);
  const KvSetting now = read_kv(now_value);
  if (is_auto(then.policy) && !is_auto(now.policy)) {
    then.policy = canonical_kv(before.kv.policy).value_or(then.policy);
  }
  return then.policy == now.policy && then.center == now.center;
}

}  // namespace

Status save_manifest(Env& env, const std::string& path, const Manifest& manifest) {
  std::string text;
  JsonWriter out(text);
  out.begin_object()
      .field("version", manifest.retries == 0 ? 1 : manifest_version)
      .field("input", manifest.input_path);
  out.field("lines", manifest.input.lines).field("last_line", manifest.input.last_number);
  out.field("lines_hash", manifest.input.hash).key("settings").begin_object();
  for (const auto& [name, value] : manifest.settings) {
    out.field(name, value);
  }
  out.end_object().field("fingerprint", manifest.fingerprint);
  out.field("kv_policy", manifest.kv.policy).field("kv_layers", manifest.kv.layers);
  out.field("retries", manifest.retries).end_object();
  text += '\n';
  return write_file_atomically(env, path, text);
}

Result<Manifest> load_manifest(Env& env, const std::string& path) {
  MILLRACE_ASSIGN(const std::string text, read_file(env, path, limits::MiB));
  try {
    const json value = json::parse(text);
    const int version = value.at("version").get<int>();
    if (version > manifest_version) {
      return fail(Code::ledger_newer, path + " was written by a newer version",
                  "use that version, or start over with --restart");
    }
    Manifest manifest;
    value.at("input").get_to(manifest.input_path);
    value.at("lines").get_to(manifest.input.lines);
    value.at("last_line").get_to(manifest.input.last_number);
    value.at("lines_hash").get_to(manifest.input.hash);
    value.at("settings").get_to(manifest.settings);
    value.at("fingerprint").get_to(manifest.fingerprint);
    manifest.kv.policy = value.value("kv_policy", "");
    manifest.kv.layers = value.value("kv_layers", "");
    manifest.retries = value.value("retries", 0u);
    return manifest;
  } catch (const json::exception& error) {
    return fail(Code::ledger_corrupt, path + " is not a manifest: " + error.what(),
                "start over with --restart");
  }
}

Status check_settings(const Manifest& before, const std::map<std::string, std::string>& now) {
  std::map<std::string, std::string> all = before.settings;
  all.insert(now.begin(), now.end());
  for (const auto& [name, value] : all) {
    const std::string then_value = or_nothing(before.settings, name);
    const std::string now_value = or_nothing(now, name);
    const bool is_kv = name == "--kv" && before.settings.contains(name) && now.contains(name);
    if (is_kv ? !same_kv(before, before.settings.at(name), now.at(name))
              : then_value != now_value) {
      std::string message = name;
      message.append(" was ").append(then_value).append(" when this run began and is ");
      message.append(now_value).append(" now");
      return fail(Code::settings_changed, std::move(message),
                  "use the settings that it began with, or start over with --restart");
    }
  }
  return {};
}

Error other_engine(const Manifest& before, const std::string& fingerprint, const EffectiveKv& kv) {
  const auto asked = before.settings.find("--kv");
  if (asked != before.settings.end() && !before.kv.layers.empty() && !kv.layers.empty() &&
      before.kv.layers != kv.layers) {
    return {Code::settings_changed,
            "--kv " + asked->second + " meant " + named(before.kv) +
                " when this run began and means " + named(kv) +
                " now: the output would mix results of both",
            (is_auto(asked->second) && !before.kv.policy.empty()
                 ? "give --kv " + before.kv.policy
                 : std::string("use the settings that it began with")) +
                ", or start over with --restart"};
  }
  return {
      Code::settings_changed,
      "the engine's numeric fingerprint is " + fingerprint + ", but this run began with " +
          before.fingerprint +
          ": the model, the KV policy, a KV pool smaller than a context, the device, the driver "
          "or the version differs, and the output would mix results of both",
      "use what the run began with, or start over with --restart"};
}

}  // namespace millrace::client
