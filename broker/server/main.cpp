// millrace-broker: a broker process. Listens, keeps its ledger, drains on SIGTERM and SIGINT.
// Exit codes: 0 drained, 1 had to stop by an error, 2 usage, 3 refused to start.
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "broker/server/server.hpp"
#include "schemas/base/log.hpp"

namespace {

using namespace millrace;

constexpr const char* about =
    "The Millrace broker: takes generation jobs, keeps them on disk, hands them to engines and\n"
    "publishes their results.";
constexpr const char* examples =
    "\nExamples:\n"
    "  millrace-broker --ledger /var/lib/millrace\n"
    "  millrace-broker --ledger /var/lib/millrace --listen tcp://127.0.0.1:6000 \\\n"
    "      --listen-engines ipc:///run/millrace/engines --listen-push tcp://127.0.0.1:6003\n"
    "  millrace-broker --config /etc/millrace/broker.ini\n"
    "\n"
    "A configuration file holds one option a line, without the dashes:\n"
    "  ledger = /var/lib/millrace\n"
    "  listen = tcp://127.0.0.1:6000\n"
    "\n"
    "SIGTERM or SIGINT: no new jobs, running ones get --drain-wait-ms, then it ends; a second one\n"
    "ends it as soon as everything taken is on disk. Leased jobs stay leased for the next start.\n"
    "Exit codes: 0 drained, 1 stopped by an error, 2 usage, 3 refused to start.";

struct Arguments {
  broker::ServerOptions server;
  std::string log_level = "info";
  bool log_json = false;
};

void declare(CLI::App& app, Arguments& arguments) {
  auto& server = arguments.server;
  auto& core = server.core;
  server.ledger_folder = "millrace-ledger";
  app.footer(examples);
  app.set_config("--config", "", "read options from FILE (key = value)");
  app.allow_config_extras(CLI::config_extras_mode::error);
  app.add_option("--ledger", server.ledger_folder, "folder of the ledger; made where missing")
      ->capture_default_str();
  app.add_option("--listen", server.clients, "endpoint for clients")->capture_default_str();
  app.add_option("--listen-engines", server.engines, "endpoint for engines")->capture_default_str();
  app.add_option("--listen-doorbell", server.doorbell,
                 "endpoint that announces new results; empty for none")
      ->capture_default_str();
  app.add_option("--listen-push", server.push,
                 "endpoint for producers that want no answer (PUSH); what is refused goes to the "
                 "stream `rejected`");
  app.add_option("--lease-ms", core.lease_ms, "an engine that is silent so long loses its jobs")
      ->check(CLI::Range(1'000u, 3'600'000u))
      ->capture_default_str();
  app.add_option("--hang-ms", core.hang_ms, "so does one that makes no step for so long")
      ->check(CLI::Range(1'000u, 86'400'000u))
      ->capture_default_str();
  app.add_option("--suspect-wait-ms", core.suspect_wait_ms,
                 "after so long one engine is kept free for a job suspected of killing engines")
      ->check(CLI::Range(0u, 86'400'000u))
      ->capture_default_str();
  app.add_option("--drain-wait-ms", core.drain_wait_ms,
                 "how long a graceful stop waits for running jobs")
      ->check(CLI::Range(0u, 86'400'000u))
      ->capture_default_str();
  app.add_option("--log-level", arguments.log_level, "trace, debug, info, warn, error or off")
      ->capture_default_str();
  app.add_flag("--log-json", arguments.log_json, "one JSON object a log line");
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

// Until the server has ended by itself (it raises SIGUSR1) or a signal made it drain.
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

int run(Arguments arguments) {
  auto level = log_level_from_name(arguments.log_level);
  if (!level) {
    tell(level.error());
    return 2;
  }
  set_up_logging({*level, arguments.log_json, {}});
  auto& core = arguments.server.core;
  core.heartbeat_ms = std::min(core.heartbeat_ms, core.lease_ms / 5);
  // Blocked before any thread begins, so that all inherit it and this one alone waits for them.
  const auto signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  arguments.server.ended = [] { ::kill(::getpid(), SIGUSR1); };
  const std::string ledger = arguments.server.ledger_folder;
  auto server = broker::BrokerServer::start(std::move(arguments.server));
  if (!server) {
    tell(server.error());
    return server.error().code == Code::usage ? 2 : 3;
  }
  log_info("listening", {{"clients", (*server)->clients()},
                         {"engines", (*server)->engines()},
                         {"doorbell", (*server)->doorbell()},
                         {"push", (*server)->push()},
                         {"ledger", ledger}});
  announce(**server);
  const auto ended = serve(**server, signals);
  const auto counters = (*server)->statistics().core;
  log_info("ended", {{"submitted", counters.submitted},
                     {"finished", counters.finished},
                     {"refused_jobs", counters.refused_jobs},
                     {"malformed", counters.malformed},
                     {"stale", counters.stale}});
  if (ended) return 0;
  tell(ended.error());
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{about, "millrace-broker"};
  app.set_version_flag("--version", "millrace-broker " MILLRACE_VERSION);
  Arguments arguments;
  declare(app, arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ConfigError& error) {
    tell({Code::usage, std::string("the configuration file has an unknown option: ") + error.what(),
          "its options are those of --help, without the dashes"});
    return 2;
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  return run(std::move(arguments));
}
