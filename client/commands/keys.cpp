// `millrace keys`: makes keys, and writes the list of keys that a broker allows.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "client/commands/command.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/keys/grants.hpp"
#include "schemas/keys/key_file.hpp"
#include "schemas/keys/token.hpp"

namespace millrace::client {
namespace {

constexpr const char* at_once = "a running broker lets the key in at once";
constexpr const char* soon = "a running broker reads the list within a second";

struct Flags {
  std::string file, folder, name, tenant = "default", roles, public_key, broker_key;
};

// The list of a folder, locked against another `millrace keys` while it is changed.
class AllowedList {
 public:
  static Result<AllowedList> open(const std::string& folder) {
    AllowedList list;
    list.folder_ = folder;
    MILLRACE_ASSIGN(list.lock_, list.env_->lock(list.path() + ".lock"));
    MILLRACE_ASSIGN(const std::string text, read_allowed(folder));
    auto grants = parse_grants(text);
    if (!grants) {
      Error error = grants.error();
      error.message = list.path() + ": " + error.message;
      return fail(std::move(error));
    }
    list.grants = *std::move(grants);
    return list;
  }
  // Adds a key. Errors: conflict (the list has one of this name, or this very key).
  Status add(const Grant& grant) {
    const auto named = std::ranges::find(grants, grant.name, &Grant::name);
    if (named != grants.end()) {
      return fail(Code::conflict, path() + " allows a key named " + grant.name + " already",
                  "revoke it (`millrace keys revoke`), or change what it may do with `millrace "
                  "keys allow` and its public half");
    }
    const auto same = std::ranges::find(grants, grant.key, &Grant::key);
    if (same != grants.end()) {
      return fail(Code::conflict, path() + " allows this key already, with the name " + same->name,
                  "change what it may do with `millrace keys allow` and this name");
    }
    grants.push_back(grant);
    return {};
  }
  // Checks the whole list and replaces the file.
  Status write() {
    const std::string text = format_grants(grants);
    MILLRACE_TRY(parse_grants(text));
    return write_file_atomically(*env_, path(), text);
  }

  std::vector<Grant> grants;

 private:
  std::string path() const { return folder_ + "/" + allowed_file; }
  std::string folder_;
  std::unique_ptr<Env> env_ = posix_env();
  std::unique_ptr<FileLock> lock_;
};

Result<std::string> broker_key_of(const std::string& folder) {
  MILLRACE_ASSIGN(const KeyPair own, read_key_file(folder + "/" + broker_key_file));
  return own.public_key;
}

Result<Grant> grant_of(const Flags& flags, const std::string& key) {
  Grant grant{flags.name, flags.tenant, {}, key};
  MILLRACE_ASSIGN(grant.roles, parse_roles(flags.roles));
  MILLRACE_TRY(check_grant(grant));
  return grant;
}

void print_grant(const Grant& grant, bool json) {
  if (!json) {
    std::printf("%-20s %-16s %-20s %s\n", printable_name(grant.name).c_str(),
                printable_name(grant.tenant).c_str(), grant.roles.text().c_str(),
                printable_name(grant.key).c_str());
    return;
  }
  std::string line;
  JsonWriter(line)
      .begin_object()
      .field("name", grant.name)
      .field("tenant", grant.tenant)
      .field("roles", grant.roles.text())
      .field("public", grant.key)
      .end_object();
  std::printf("%s\n", line.c_str());
}

void print_public(const char* what, const std::string& key, bool json) {
  if (!json) {
    std::printf("%s %s\n", what, printable_name(key).c_str());
    return;
  }
  std::string line;
  JsonWriter(line).begin_object().field(what, key).end_object();
  std::printf("%s\n", line.c_str());
}

Status init(const Flags& flags, bool json) {
  const auto env = posix_env();
  MILLRACE_TRY(env->make_directories(flags.folder));
  const std::string list = flags.folder + "/" + allowed_file;
  const KeyPair own = new_key_pair();
  MILLRACE_TRY(write_key_file(flags.folder + "/" + broker_key_file, own));
  MILLRACE_ASSIGN(const bool there, env->exists(list));
  if (!there) MILLRACE_TRY(write_file_atomically(*env, list, format_grants({})));
  print_public("broker", own.public_key, json);
  return {};
}

Status make(const Flags& flags, bool json) {
  KeyPair key = new_key_pair();
  key.broker_key = flags.broker_key;
  if (flags.folder.empty()) {
    if (!key.broker_key.empty()) MILLRACE_TRY(check_public_key(key.broker_key));
    MILLRACE_TRY(write_key_file(flags.file, key));
    print_public("public", key.public_key, json);
    return {};
  }
  MILLRACE_ASSIGN(key.broker_key, broker_key_of(flags.folder));
  MILLRACE_ASSIGN(const Grant grant, grant_of(flags, key.public_key));
  MILLRACE_ASSIGN(auto list, AllowedList::open(flags.folder));
  MILLRACE_TRY(list.add(grant));  // before the file is made
  MILLRACE_TRY(write_key_file(flags.file, key));
  MILLRACE_TRY(list.write());
  print_grant(grant, json);
  print_notice("keys", at_once, json);
  return {};
}

Status allow(const Flags& flags, bool json) {
  MILLRACE_ASSIGN(const Grant grant, grant_of(flags, flags.public_key));
  MILLRACE_ASSIGN(auto list, AllowedList::open(flags.folder));
  // A key of this name may get other roles or another tenant, but never become another key.
  const auto known = std::ranges::find(list.grants, grant.name, &Grant::name);
  if (known != list.grants.end() && known->key == grant.key) {
    *known = grant;
  } else {
    MILLRACE_TRY(list.add(grant));
  }
  MILLRACE_TRY(list.write());
  print_grant(grant, json);
  print_notice("keys", soon, json);
  return {};
}

Status revoke(const Flags& flags, bool json) {
  MILLRACE_ASSIGN(auto list, AllowedList::open(flags.folder));
  if (std::erase_if(list.grants, [&](const Grant& grant) { return grant.name == flags.name; }) ==
      0) {
    return fail(Code::not_found, "no key named " + flags.name + " is allowed",
                "`millrace keys ls --keys DIR` shows the names");
  }
  MILLRACE_TRY(list.write());
  print_notice("keys",
               "the key " + flags.name + " is revoked: " + soon + " and ends the key's sessions",
               json);
  return {};
}

Status print_token(const Flags& flags, bool json) {
  MILLRACE_ASSIGN(const KeyPair key, read_key_file(flags.file));
  MILLRACE_ASSIGN(const std::string token, token_of(key));
  if (json) {
    std::string line;
    JsonWriter(line).begin_object().field("token", token).end_object();
    std::printf("%s\n", line.c_str());
  } else {
    std::printf("%s\n", token.c_str());
  }
  return {};
}

Status list_keys(const Flags& flags, bool json) {
  MILLRACE_ASSIGN(const std::string broker, broker_key_of(flags.folder));
  MILLRACE_ASSIGN(const auto list, AllowedList::open(flags.folder));
  print_public("broker", broker, json);
  for (const Grant& grant : list.grants) print_grant(grant, json);
  return {};
}

using Action = Status (*)(const Flags& flags, bool json);

}  // namespace

void add_keys_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "keys",
      "Make keys, and say whom a broker allows and what each may do.\n\n"
      "Examples:\n"
      "  millrace keys init /etc/millrace/keys\n"
      "  millrace keys new producer.key --keys /etc/millrace/keys --name producer \\\n"
      "      --tenant acme --roles submit,read\n"
      "  export OPENAI_API_KEY=$(millrace keys token producer.key)\n"
      "  millrace keys revoke producer --keys /etc/millrace/keys\n\n"
      "`millrace keys new --help` says what the roles are. The tenant of an engine may be *: every "
      "tenant. A service of systemd can read what root makes only after `chown -R millrace: "
      "/etc/millrace/keys`.");
  command->require_subcommand(1);
  auto flags = std::make_shared<Flags>();
  const auto add = [&](const char* name, const char* help, Action action) {
    auto* one = command->add_subcommand(name, help);
    one->callback([&invocation, flags, action] {
      invocation.action = [&invocation, flags, action] {
        const Status done = action(*flags, invocation.json);
        return done ? exit_all_done : report_error(done.error(), invocation.json);
      };
    });
    return one;
  };
  const auto folder = [&](CLI::App* one) {
    return one->add_option("--keys", flags->folder, "the broker's folder of keys")
        ->type_name("DIR");
  };
  const auto rights = [&](CLI::App* one) {
    one->add_option("--tenant", flags->tenant, "whom the key acts for; * for an engine of all")
        ->type_name("NAME")
        ->capture_default_str();
    return one
        ->add_option("--roles", flags->roles, "what it may do: submit,read,work,admin,operate")
        ->type_name("ROLES");
  };
  auto* first = add("init", "Make a broker's folder of keys: its own key and an empty list", init);
  first->add_option("folder", flags->folder, "the folder")->type_name("DIR")->required();
  auto* fresh = add("new",
                    "Make a key file; with --keys also allow the key.\n\n"
                    "Roles, with commas between them:\n"
                    "  submit: stores jobs, and lists, cancels, retries, drops and pauses those of "
                    "its tenant.\n"
                    "  read: reads results and watches them come, and lists jobs, batches and "
                    "streams.\n"
                    "  work: is an engine (millrace-engine), and nothing else.\n"
                    "  admin: does what submit and read do, and sets what streams keep, trims and "
                    "removes them.\n"
                    "  operate: backs the broker up and drains it, for all tenants, and sees that "
                    "it works (doctor).",
                    make);
  fresh->add_option("file", flags->file, "the file to make")->type_name("FILE")->required();
  auto* of_folder = folder(fresh);
  auto* name = fresh->add_option("--name", flags->name, "name of the key in the broker's list");
  name->type_name("NAME")->needs(of_folder);
  auto* roles = rights(fresh)->needs(of_folder);
  of_folder->needs(name)->needs(roles);
  fresh->add_option("--broker-key", flags->broker_key, "public key of the broker to connect to")
      ->type_name("KEY")
      ->excludes(of_folder);
  auto* permit = add("allow", "Allow a key by its public half, or change what it may do", allow);
  permit->add_option("name", flags->name, "name of the key")->required();
  permit->add_option("--public", flags->public_key, "the public half")
      ->type_name("KEY")
      ->required();
  rights(permit)->required();
  folder(permit)->required();
  auto* end = add("revoke", "Allow a key no longer; its sessions end", revoke);
  end->add_option("name", flags->name, "name of the key")->required();
  folder(end)->required();
  auto* token = add("token",
                    "Print a key file's secret as a token for HTTP.\n\n"
                    "Clients send it as `Authorization: Bearer TOKEN`. Whoever has it acts in the "
                    "key's name.",
                    print_token);
  token->add_option("file", flags->file, "the key file")->type_name("FILE")->required();
  folder(add("ls", "List the keys that a broker allows", list_keys))->required();
}

}  // namespace millrace::client
