// The program millrace-broker: runs a broker and drains it on SIGTERM and SIGINT.
// Exit codes: 0 drained, 1 stopped by an error, 2 usage, 3 refused to start.
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "broker/server/server.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/command_units.hpp"
#include "schemas/base/command_usage.hpp"
#include "schemas/base/log.hpp"

namespace {

using namespace millrace;

constexpr std::uint64_t day_s = 86'400;

constexpr const char* about =
    "The broker takes generation jobs, keeps them on disk, hands them to engines and publishes "
    "their "
    "results.";
constexpr const char* footer =
    "Examples:\n"
    "  millrace-broker --ledger /var/lib/millrace\n"
    "  millrace-broker --ledger /var/lib/millrace --listen tcp://127.0.0.1:6000 \\\n"
    "      --listen-engines ipc:///run/millrace/engines\n"
    "  millrace-broker --config /etc/millrace/broker.ini\n"
    "\n"
    "SIGTERM or SIGINT drains the broker: it takes no new jobs, and running jobs get "
    "--drain-wait-ms. A second signal stops it as soon as all accepted jobs are on disk. Jobs that "
    "still run then stay leased for the next start.\n"
    "Exit codes: 0 drained, 1 stopped by an error, 2 usage, 3 refused to start.";

// How long ended things are kept; 0: for ever.
struct Keeps {
  std::uint64_t results_s = 30 * day_s, bytes = 10 * limits::GiB;  // of a stream
  std::uint64_t cursors_s = 30 * day_s, jobs_s = 30 * day_s;
};

broker::RetentionPolicy policy_of(const Keeps& keeps) {
  const auto us = [](std::uint64_t seconds) {
    return static_cast<std::int64_t>(seconds) * 1'000'000;
  };
  return {{us(keeps.results_s), keeps.bytes, us(keeps.cursors_s)}, us(keeps.jobs_s)};
}

struct Arguments {
  broker::ServerOptions server;
  std::string ledger = "millrace-ledger";
  Keeps keeps;
  std::vector<std::string> tenants;  // as parse_tenant_limits reads them
  std::string log_level = "info";
  bool log_json = false;
};

void declare(CLI::App& app, Arguments& arguments) {
  auto& server = arguments.server;
  auto& core = server.core;
  const auto add = [&](const char* name, auto& value, const char* type, const std::string& help) {
    return app.add_option(name, value, help)->type_name(type)->capture_default_str();
  };
  app.footer(footer);
  app.set_config("--config", "",
                 "file to read options from" +
                     at_length("It holds one option a line, without the dashes, like\n"
                               "  ledger = /var/lib/millrace\n"
                               "  listen = tcp://127.0.0.1:6000"))
      ->type_name("FILE");
  app.allow_config_extras(CLI::config_extras_mode::error);
  add("--ledger", arguments.ledger, "PLACE",
      "folder of the ledger, created if it is missing" +
          at_length("It may be written as a URL: sqlite:///FOLDER. With memory: the ledger is in "
                    "memory, for trials: acknowledged jobs are lost when the broker ends."));
  add("--listen", server.clients, "ADDR", "endpoint for clients");
  add("--listen-engines", server.engines, "ADDR", "endpoint for engines");
  add("--listen-doorbell", server.doorbell, "ADDR",
      "endpoint that announces new results; \"\" for none");
  add("--listen-push", server.push, "ADDR",
      "endpoint for producers that want no answer [none]" +
          at_length("Producers connect a PUSH socket. A job that is refused goes to the stream "
                    "`rejected`."));
  add("--keys", server.keys, "DIR",
      "folder of the keys that may connect; without it only ipc:// and loopback [none]" +
          at_length("It holds broker.key and the list of allowed keys, which `millrace keys` "
                    "writes. The broker reads the list again when it changes; the sessions of a "
                    "revoked key end. With keys every endpoint asks for one."));
  app.add_option("--tenant", arguments.tenants,
                 "what a tenant may use, for example acme:weight=3,leases=64,queued=10000" +
                     at_length("Engines that serve several tenants share their work between those "
                               "whose jobs wait, in tokens and in proportion to the weights (1 "
                               "where none is given). At most `leases` of the tenant's jobs are "
                               "with engines at once, and at most `queued` wait. Give the option "
                               "once for each tenant; the name * is every tenant that has none."))
      ->type_name("NAME:LIMITS")
      ->allow_extra_args(false);
  add("--lease-ms", core.lease_ms, "MS", "an engine that is silent for this long loses its jobs")
      ->check(CLI::Range(1'000u, 3'600'000u));
  add("--hang-ms", core.hang_ms, "MS", "an engine that makes no step for this long loses its jobs")
      ->check(CLI::Range(1'000u, 86'400'000u));
  add("--suspect-wait-ms", core.suspect_wait_ms, "MS",
      "after this wait an engine is kept free for a suspect" +
          at_length("A suspect is a job that ran when an engine died. It runs alone, so that it "
                    "takes no other job with it."))
      ->check(CLI::Range(0u, 86'400'000u));
  auto& keeps = arguments.keeps;
  takes_duration(*add("--keep-results", keeps.results_s, "TIME",
                      "delete results after this time" +
                          at_length("30d, 12h, 15m or seconds; 0 keeps them for ever. "
                                    "`millrace streams keep` sets limits for one stream. A named "
                                    "cursor holds results up to twice as long."))
                      ->default_str("30d"));
  takes_size(*add("--keep-bytes", keeps.bytes, "SIZE",
                  "delete the oldest results of a stream beyond this size; 0 keeps all")
                  ->default_str("10G"));
  takes_duration(*add("--keep-cursors", keeps.cursors_s, "TIME",
                      "delete cursors that were not moved for this time")
                      ->default_str("30d"));
  takes_duration(*add("--keep-jobs", keeps.jobs_s, "TIME",
                      "forget ended jobs after this time" +
                          at_length("The id of a job is known as long as the job is kept: "
                                    "submitted again later, it is a new job."))
                      ->default_str("30d"));
  add("--drain-wait-ms", core.drain_wait_ms, "MS",
      "time that running jobs get when the broker drains")
      ->check(CLI::Range(0u, 86'400'000u));
  add("--log-level", arguments.log_level, "LEVEL", "trace, debug, info, warn, error or off");
  app.add_flag("--log-json", arguments.log_json, "write each line of the log as a JSON object");
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

// Waits until the server has ended: by itself (it raises SIGUSR1), or drained by a signal.
Status serve(broker::BrokerServer& server, const sigset_t& signals) {
  bool draining = false;
  while (server.running()) {
    int signal = 0;
    if (sigwait(&signals, &signal) != 0 || signal == SIGUSR1 || signal == SIGHUP) continue;
    log_info("signal", {{"signal", strsignal(signal)}});
    if (draining) return server.stop();
    draining = true;
    server.drain();
  }
  return server.wait();
}

void tell(const Error& error) {
  std::fprintf(stderr, "millrace-broker: %s\n", error.text().c_str());
}

void announce(const broker::BrokerServer& server) {
  std::printf("clients %s\nengines %s\n", server.clients().c_str(), server.engines().c_str());
  if (!server.doorbell().empty()) std::printf("doorbell %s\n", server.doorbell().c_str());
  if (!server.push().empty()) std::printf("push %s\n", server.push().c_str());
  std::printf("ready\n");
  std::fflush(stdout);
}

Result<broker::TenantTable> read_tenants(const std::vector<std::string>& texts) {
  broker::TenantTable table;
  for (const std::string& text : texts) {
    MILLRACE_ASSIGN(auto one, broker::parse_tenant_limits(text));
    if (!table.insert(one).second) {
      return fail(Code::usage, "--tenant: " + one.first + " is given twice",
                  "give all limits of a tenant at once, with commas between them");
    }
  }
  return table;
}

int run(Arguments arguments) {
  auto level = log_level_from_name(arguments.log_level);
  if (!level) {
    tell(level.error());
    return 2;
  }
  set_up_logging({*level, arguments.log_json, {}});
  auto place = broker::parse_ledger_place(arguments.ledger);
  if (!place) {
    tell(place.error());
    return 2;
  }
  arguments.server.ledger = *std::move(place);
  auto tenants = read_tenants(arguments.tenants);
  if (!tenants) {
    tell(tenants.error());
    return 2;
  }
  auto& core = arguments.server.core;
  core.tenants = *std::move(tenants);
  core.retention = policy_of(arguments.keeps);
  core.heartbeat_ms = std::min(core.heartbeat_ms, core.lease_ms / 5);
  // Block the signals before any thread starts, so that all inherit this and only this one waits.
  const auto signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  arguments.server.ended = [] { ::kill(::getpid(), SIGUSR1); };
  auto server = broker::BrokerServer::start(std::move(arguments.server));
  if (!server) {
    tell(server.error());
    return server.error().code == Code::usage ? 2 : 3;
  }
  log_info("listening", {{"clients", (*server)->clients()},
                         {"engines", (*server)->engines()},
                         {"doorbell", (*server)->doorbell()},
                         {"push", (*server)->push()},
                         {"ledger", arguments.ledger}});
  announce(**server);
  const auto ended = serve(**server, signals);
  const auto statistics = (*server)->statistics();
  const auto& counters = statistics.core;
  log_info("ended", {{"submitted", counters.submitted},
                     {"finished", counters.finished},
                     {"refused_jobs", counters.refused_jobs},
                     {"trimmed", counters.trimmed},
                     {"forgotten", counters.forgotten},
                     {"malformed", counters.malformed},
                     {"unauthorized", counters.unauthorized},
                     {"refused_connections", statistics.refused_connections},
                     {"stale", counters.stale}});
  if (ended) return 0;
  tell(ended.error());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  // Frames of megabytes get pages of their own, which return to the system when they are freed.
  // Left to itself, malloc raises this threshold to the largest block that was ever freed.
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  CLI::App app{about, "millrace-broker"};
  set_up_help(app);
  app.set_version_flag("--version", "millrace-broker " MILLRACE_VERSION, "print the version");
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ConfigError& error) {
    tell({Code::usage, std::string("the configuration file has an unknown option: ") + error.what(),
          "it takes the options of --help, without the dashes"});
    return 2;
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // help and version
    tell(usage_error(app, error));
    return 2;
  }
  return run(std::move(arguments));
}
