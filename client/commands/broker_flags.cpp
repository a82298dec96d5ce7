// The options with which a command finds its broker.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "client/commands/command.hpp"
#include "client/commands/contexts.hpp"
#include "client/commands/quiet_session.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::client {
namespace {

constexpr const char* broker_variable = "MILLRACE_BROKER";

std::string session_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return std::string(host.data()) + ":" + std::to_string(::getpid());
}

void print_event(const LinkEvent& event, bool json) {
  if (json) {
    std::string line;
    JsonWriter out(line);
    out.begin_object().field("event",
                             event.kind == LinkEvent::Kind::away ? "broker_away" : "broker_back");
    out.field("reason", event.reason).field("away_ms", event.away_ms);
    out.field("retry_ms", event.retry_ms).end_object();
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  if (event.kind == LinkEvent::Kind::away) {
    std::fprintf(stderr, "millrace: %s; trying again (next attempt after %.0f s)\n",
                 printable(event.reason).c_str(), event.retry_ms / 1e3);
  } else {
    std::fprintf(stderr, "millrace: the broker is back after %.1f s\n",
                 static_cast<double>(event.away_ms) / 1e3);
  }
}

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

Result<Context> stored_context(const std::string& name) {
  const auto env = posix_env();
  MILLRACE_ASSIGN(const Contexts contexts, load_contexts(*env));
  return contexts.find(name.empty() ? contexts.current : name);
}

// The key of a context is for its own broker, so that no other one gets to see it.
Result<Context> address_of(const BrokerFlags& flags) {
  Context found{flags.endpoint, ""};
  if (!flags.endpoint.empty() && !flags.context.empty()) {
    return fail(Code::usage, "--broker and --context both name a broker", "leave one of them out");
  }
  if (flags.endpoint.empty() && flags.context.empty()) {
    found.broker = variable(broker_variable);
  }
  if (found.broker.empty()) {
    MILLRACE_ASSIGN(
        found, stored_context(flags.context.empty() ? variable(context_variable) : flags.context));
  }
  if (!flags.key.empty()) {
    found.key = flags.key;
  } else if (found.key.empty()) {
    found.key = variable(key_variable);
  }
  return found;
}

Result<std::unique_ptr<Session>> open(const BrokerFlags& flags, const Clock& clock,
                                      std::function<void(const LinkEvent&)> on_event) {
  MILLRACE_ASSIGN(const Context address, address_of(flags));
  SessionOptions options;
  options.endpoint = address.broker;
  options.name = session_name();
  MILLRACE_ASSIGN(options.key, key_for(address.key, address.broker));
  options.on_event = std::move(on_event);
  return Session::open(std::move(options), clock);
}

}  // namespace

void add_broker_flags(CLI::App& app, BrokerFlags& flags) {
  app.add_option("--broker", flags.endpoint,
                 "the broker's endpoint for clients" +
                     at_length("Else $MILLRACE_BROKER, or the endpoint of the context. Of several "
                               "brokers on one ledger name all, with commas."))
      ->type_name("ADDR");
  app.add_option("--context", flags.context,
                 "a broker that millrace context names" +
                     at_length("Else $MILLRACE_CONTEXT, or the context in use."))
      ->type_name("NAME");
  app.add_option("--key", flags.key, "file with the key, for a broker with keys [none]")
      ->type_name("FILE");
  app.add_option("--timeout", flags.timeout_s, "time to wait for the broker")
      ->type_name("SEC")
      ->check(CLI::Range(1, 86'400))
      ->capture_default_str();
}

std::string repeated(const BrokerFlags& flags) {
  std::string out;
  for (const auto& [name, value] :
       {std::pair(" --broker ", &flags.endpoint), std::pair(" --context ", &flags.context),
        std::pair(" --key ", &flags.key)}) {
    if (!value->empty()) {
      out += name + *value;
    }
  }
  return out;
}

std::string endpoint_of(const BrokerFlags& flags) {
  const auto found = address_of(flags);
  return found ? found->broker : flags.endpoint;
}

Result<std::unique_ptr<Session>> open_session(const BrokerFlags& flags, const Clock& clock,
                                              bool json, std::function<void()> before_report) {
  return open(flags, clock, [json, before = std::move(before_report)](const LinkEvent& event) {
    if (before) before();
    print_event(event, json);
  });
}

Result<std::unique_ptr<Session>> open_quiet_session(const BrokerFlags& flags, const Clock& clock) {
  return open(flags, clock, {});
}

EventLoopOptions loop_options(const BrokerFlags& flags) {
  EventLoopOptions options;
  options.timeout_ms = flags.timeout_s * 1000;
  options.interrupted = interrupted;
  return options;
}

}  // namespace millrace::client
