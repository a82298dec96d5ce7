// `millrace context`: names brokers, so that commands find them without --broker and --key.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "client/commands/command.hpp"
#include "client/commands/contexts.hpp"
#include "client/commands/list_output.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/net/socket.hpp"

namespace millrace::client {
namespace {

struct Flags {
  std::string name, broker, key;
  ListFlags list;
};

// A command may run in any folder, so the path of a key is kept from the root.
Result<std::string> key_path(const std::string& key) {
  std::error_code error;
  if (key.empty()) {
    return std::string();
  }
  const auto path = std::filesystem::absolute(key, error);
  if (error || !std::filesystem::is_regular_file(path, error)) {
    return fail(Code::usage, "the key file " + key + " does not exist", "check --key");
  }
  return path.lexically_normal().string();
}

Status add(const Flags& flags) {
  const auto env = posix_env();
  MILLRACE_ASSIGN(Contexts contexts, load_contexts(*env));
  MILLRACE_TRY(net::check_endpoints(flags.broker));
  MILLRACE_ASSIGN(std::string key, key_path(flags.key));
  const bool known = contexts.all.contains(flags.name);
  MILLRACE_TRY(contexts.add(flags.name, {flags.broker, std::move(key)}));
  MILLRACE_TRY(save_contexts(*env, contexts));
  std::fprintf(stderr, "context %s %s; millrace context use %s makes it the one that is used\n",
               flags.name.c_str(), known ? "replaced" : "added", flags.name.c_str());
  return {};
}

Status use(const Flags& flags) {
  const auto env = posix_env();
  MILLRACE_ASSIGN(Contexts contexts, load_contexts(*env));
  MILLRACE_TRY(contexts.use(flags.name));
  MILLRACE_TRY(save_contexts(*env, contexts));
  MILLRACE_ASSIGN(const Context context, contexts.find(contexts.current));
  std::fprintf(stderr, "context %s: %s\n", contexts.current.c_str(),
               printable_name(context.broker).c_str());
  return {};
}

Status remove(const Flags& flags) {
  const auto env = posix_env();
  MILLRACE_ASSIGN(Contexts contexts, load_contexts(*env));
  MILLRACE_TRY(contexts.remove(flags.name));
  return save_contexts(*env, contexts);
}

Status list(const Flags& flags, bool json) {
  const auto env = posix_env();
  MILLRACE_ASSIGN(Contexts contexts, load_contexts(*env));
  MILLRACE_ASSIGN(contexts.all[std::string(local_context)],
                  contexts.find(std::string(local_context)));
  ListOutput out(flags.list, json, {"NAME", "CURRENT", "BROKER", "KEY"});
  for (const auto& [name, context] : contexts.all) {
    const bool current = name == contexts.current;
    std::string line;
    JsonWriter writer(line);
    writer.begin_object().field("name", name).field("current", current);
    writer.field("broker", context.broker).field("key", context.key).end_object();
    out.row({.id = name,
             .text = std::string(current ? "* " : "  ") + name + ": " + context.broker +
                     (context.key.empty() ? "" : ", key " + context.key),
             .cells = {name, current ? "yes" : "", context.broker, context.key},
             .json = std::move(line)});
  }
  out.finish("no context");
  return {};
}

template <class Action>
void on_call(CLI::App& verb, Invocation& invocation, const Action& action) {
  verb.callback([&invocation, action] {
    invocation.action = [&invocation, action] {
      const Status done = action();
      return done ? exit_all_done : report_error(done.error(), invocation.json);
    };
  });
}

}  // namespace

void add_context_command(CLI::App& app, Invocation& invocation) {
  auto* group = app.add_subcommand(
      "context",
      "Name brokers and their keys, and choose which one commands use.\n\n"
      "A command takes --broker, else --context, else $MILLRACE_BROKER, else $MILLRACE_CONTEXT, "
      "else the context in use. The context local is the broker of this machine.\n\n"
      "Examples:\n"
      "  millrace context add fleet --broker tcp://10.0.0.5:5570 --key me.key\n"
      "  millrace context use fleet    # from now on; use - goes back\n"
      "  millrace status --context local");
  group->require_subcommand(1);
  auto flags = std::make_shared<Flags>();
  auto* added = group->add_subcommand("add", "Store a broker under a name, or replace it.");
  added->add_option("name", flags->name, "name of the context")->required();
  added->add_option("--broker", flags->broker, "the broker's endpoint for clients")
      ->type_name("ADDR")
      ->required();
  added->add_option("--key", flags->key, "file with the key, for a broker with keys [none]")
      ->type_name("FILE");
  auto* used = group->add_subcommand("use", "Choose the context that commands use.");
  used->add_option("name", flags->name, "name of the context, or - for the previous one")
      ->required();
  auto* listed = group->add_subcommand("ls", "List the contexts.");
  add_list_flags(*listed, flags->list);
  auto* removed = group->add_subcommand("rm", "Forget a context.");
  removed->add_option("name", flags->name, "name of the context")->required();
  on_call(*added, invocation, [flags] { return add(*flags); });
  on_call(*used, invocation, [flags] { return use(*flags); });
  on_call(*removed, invocation, [flags] { return remove(*flags); });
  on_call(*listed, invocation, [flags, &invocation] { return list(*flags, invocation.json); });
}

}  // namespace millrace::client
