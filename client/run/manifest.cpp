#include "client/run/manifest.hpp"

#include <nlohmann/json.hpp>

#include "client/lines/json_writer.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

std::string or_nothing(const std::map<std::string, std::string>& settings,
                       const std::string& name) {
  const auto at = settings.find(name);
  return at == settings.end() ? "not given" : "\"" + at->second + "\"";
}

}  // namespace

Status save_manifest(Env& env, const std::string& path, const Manifest& manifest) {
  std::string text;
  JsonWriter out(text);
  out.begin_object().field("version", manifest_version).field("input", manifest.input_path);
  out.field("lines", manifest.input.lines).field("last_line", manifest.input.last_number);
  out.field("lines_hash", manifest.input.hash).key("settings").begin_object();
  for (const auto& [name, value] : manifest.settings) {
    out.field(name, value);
  }
  out.end_object().field("fingerprint", manifest.fingerprint).end_object();
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
    if (then_value != now_value) {
      std::string message = name;
      message.append(" was ").append(then_value).append(" when this run began and is ");
      message.append(now_value).append(" now");
      return fail(Code::settings_changed, std::move(message),
                  "use the settings it began with, or start over with --restart");
    }
  }
  return {};
}

}  // namespace millrace::client
