#include "client/commands/contexts.hpp"

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

#include "schemas/base/json_writer.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/net/local_endpoint.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

constexpr int newest_version = 1;
constexpr std::string_view back = "-";

Status check_name(const std::string& name) {
  constexpr std::string_view allowed =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
  const bool sound = !name.empty() && name.size() <= limits::id_bytes && !name.starts_with('-') &&
                     name.find_first_not_of(allowed) == std::string::npos;
  return sound ? Status()
               : Status(fail(Code::usage, "\"" + name + "\" cannot be the name of a context",
                             "use letters, digits, dots, underscores and hyphens"));
}

std::unexpected<Error> unknown(const std::string& name) {
  return fail(Code::usage, "there is no context " + name,
              "millrace context ls lists them, and millrace context add " + name +
                  " --broker ADDR adds it");
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

Result<Context> Contexts::find(const std::string& name) const {
  if (name == local_context) {
    return Context{net::local_endpoint(net::clients_socket), ""};
  }
  const auto at = all.find(name);
  if (at == all.end()) {
    return unknown(name);
  }
  return at->second;
}

Status Contexts::add(const std::string& name, Context context) {
  MILLRACE_TRY(check_name(name));
  if (name == local_context) {
    return fail(Code::usage, "the context local is the broker of this machine",
                "choose another name");
  }
  all[name] = std::move(context);
  return {};
}

Status Contexts::use(const std::string& name) {
  const std::string wanted = name == back ? previous : name;
  MILLRACE_TRY(find(wanted));
  previous = std::exchange(current, wanted);
  return {};
}

Status Contexts::remove(const std::string& name) {
  if (name == local_context) {
    return fail(Code::usage, "the context local is always there", "name another context");
  }
  if (all.erase(name) == 0) {
    return unknown(name);
  }
  for (std::string* role : {&current, &previous}) {
    *role = *role == name ? std::string(local_context) : *role;
  }
  return {};
}

std::string contexts_path() {
  const std::string config = variable("XDG_CONFIG_HOME");
  return (config.empty() ? variable("HOME") + "/.config" : config) + "/millrace/contexts.json";
}

Result<Contexts> load_contexts(Env& env) {
  const std::string path = contexts_path();
  MILLRACE_ASSIGN(const bool there, env.exists(path));
  if (!there) {
    return Contexts();
  }
  MILLRACE_ASSIGN(const std::string text, read_file(env, path, limits::MiB));
  try {
    const json value = json::parse(text);
    if (value.at("version").get<int>() > newest_version) {
      return fail(Code::invalid_value, path + " was written by a newer version",
                  "use that version, or move the file away");
    }
    Contexts contexts;
    value.at("current").get_to(contexts.current);
    value.at("previous").get_to(contexts.previous);
    for (const auto& [name, context] : value.at("contexts").items()) {
      contexts.all[name] = {context.at("broker").get<std::string>(),
                            context.at("key").get<std::string>()};
    }
    return contexts;
  } catch (const json::exception& error) {
    return fail(Code::invalid_value, path + " holds no contexts: " + error.what(),
                "mend the file, or move it away");
  }
}

Status save_contexts(Env& env, const Contexts& contexts) {
  std::string text;
  JsonWriter out(text);
  out.begin_object().field("version", newest_version).field("current", contexts.current);
  out.field("previous", contexts.previous).key("contexts").begin_object();
  for (const auto& [name, context] : contexts.all) {
    out.key(name).begin_object().field("broker", context.broker).field("key", context.key);
    out.end_object();
  }
  out.end_object().end_object();
  const std::string path = contexts_path();
  MILLRACE_TRY(env.make_directories(parent_directory(path)));
  return write_file_atomically(env, path, text + "\n");
}

}  // namespace millrace::client
