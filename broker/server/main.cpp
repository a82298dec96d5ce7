// The program millrace-broker: runs a broker and drains it on SIGTERM and SIGINT, reads its
// settings again on SIGHUP. Exit codes: 0 drained, 1 stopped by an error, 2 usage, 3 refused to
// start.
#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "broker/server/command_line.hpp"
#include "broker/server/heap.hpp"
#include "broker/server/metrics_server.hpp"
#include "broker/server/server.hpp"
#include "http/face.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/service_manager.hpp"
#include "schemas/trace/exporter.hpp"

namespace {

using namespace millrace;

// The settings in force, and how to read them again.
struct Running {
  int argc;
  char** argv;
  broker::Settings settings;
  std::shared_ptr<broker::DiskMarks> disk_marks = std::make_shared<broker::DiskMarks>();

  void take_disk_marks() const { broker::apply(settings, *disk_marks); }
  void take_logging() const {
    set_up_logging(
        {log_level_from_name(settings.log_level).value_or(LogLevel::info), settings.log_json, {}});
  }
};

// Reads the configuration file again. One that cannot be used changes nothing.
void reload(Running& running, broker::BrokerServer& server) {
  auto wanted = broker::read_command_line(running.argc, running.argv);
  if (!wanted) {
    log_error("the configuration cannot be used; the one before stays in force", wanted.error());
    return;
  }
  const auto change = broker::change_settings(running.settings, std::move(wanted->settings));
  running.take_logging();
  running.take_disk_marks();
  broker::CoreConfig core;
  broker::apply(running.settings, core);
  server.retune(core);
  for (const auto& one : change.now) log_audit("a setting has changed: " + one);
  for (const auto& one : change.at_restart) {
    log_audit("a setting changes with the next start: " + one);
  }
  log_info("the configuration was read again",
           {{"changed", change.now.size()}, {"at_restart", change.at_restart.size()}});
}

sigset_t watched_signals() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGUSR1}) sigaddset(&set, signal);
  return set;
}

// Waits until the server has ended: by itself (it raises SIGUSR1), or drained by a signal. The HTTP
// face ends first, while the broker still serves, so that requests get their answers and the jobs
// of those without one are cancelled.
Status serve(Running& running, broker::BrokerServer& server, http::Face* face,
             const sigset_t& signals) {
  constexpr timespec a_second = {1, 0};
  bool draining = false;
  std::jthread ending;  // of the face, and then of the server
  const auto end_face = [&] {
    if (face != nullptr) face->stop(0);
    if (ending.joinable()) ending.join();
  };
  while (server.running()) {
    const int signal = sigtimedwait(&signals, nullptr, &a_second);
    if (signal < 0) broker::return_free_memory();
    if (signal < 0 || signal == SIGUSR1) continue;
    log_info("signal", {{"signal", strsignal(signal)}});
    if (signal == SIGHUP) {
      reload(running, server);
      continue;
    }
    if (draining) {
      end_face();
      return server.stop();
    }
    draining = true;
    tell_stopping();
    ending = std::jthread([&server, face, wait_ms = running.settings.drain_wait_ms] {
      if (face != nullptr) face->stop(wait_ms);
      server.drain();
    });
  }
  end_face();
  return server.wait();
}

void tell(const Error& error) {
  std::fprintf(stderr, "millrace-broker: %s\n", error.text().c_str());
}

http::FaceOptions face_options(const broker::Settings& settings) {
  http::FaceOptions options;
  options.listen = settings.http;
  options.certificate = settings.http_cert;
  options.key = settings.http_key;
  options.allow_origins = http::split_origins(settings.http_allow_origin);
  options.keys = settings.keys;
  options.timeout_ms = settings.http_timeout_s * 1'000;
  options.files = settings.http_files;
  options.spare_bytes = settings.disk_high;
  options.tenant_files_bytes = settings.http_files_bytes;
  return options;
}

// The HTTP face, where one is asked for. A ledger in a folder has the files beside it.
Result<std::unique_ptr<http::Face>> start_face(const broker::Settings& settings,
                                               const broker::LedgerPlace& ledger,
                                               broker::BrokerServer& server,
                                               std::shared_ptr<trace::Exporter> traces) {
  if (settings.http.empty()) return nullptr;
  http::FaceOptions options = face_options(settings);
  options.metrics = broker::metrics_handler(server);
  options.endpoint = server.clients();
  if (options.files.empty() && !ledger.folder.empty()) options.files = ledger.folder + "/http";
  options.traces = std::move(traces);
  return http::Face::start(std::move(options));
}

// Null where nobody takes spans.
Result<std::shared_ptr<trace::Exporter>> start_exporter(const broker::Settings& settings) {
  MILLRACE_ASSIGN(auto read,
                  trace::read_settings(settings.traces, {"millrace-broker", MILLRACE_VERSION}));
  return trace::Exporter::start(std::move(read));
}

void announce(const broker::BrokerServer& server, const http::Face* face,
              const http::Server* metrics) {
  std::printf("clients %s\nengines %s\n", server.clients().c_str(), server.engines().c_str());
  if (!server.doorbell().empty()) std::printf("doorbell %s\n", server.doorbell().c_str());
  if (!server.push().empty()) std::printf("push %s\n", server.push().c_str());
  if (face != nullptr) std::printf("http %s\n", face->url().c_str());
  if (metrics != nullptr) {
    std::printf("metrics %s/metrics\n", metrics->url().c_str());
  } else if (face != nullptr) {
    std::printf("metrics %s/metrics\n", face->url().c_str());
  }
  std::printf("ready\n");
  std::fflush(stdout);
  tell_ready();
}

int run(Running running) {
  running.take_logging();
  running.take_disk_marks();
  const broker::Settings& settings = running.settings;
  broker::ServerOptions options;
  auto place = broker::parse_ledger_place(settings.ledger);
  if (!place) {
    tell(place.error());
    return 2;
  }
  options.ledger = *place;
  options.clients = settings.clients;
  options.engines = settings.engines;
  options.doorbell = settings.doorbell;
  options.push = settings.push;
  options.keys = settings.keys;
  options.disk_marks = running.disk_marks;
  options.backups = settings.backups;
  broker::apply(settings, options.core);
  if (!settings.http.empty()) {
    if (const Status usable = http::check_face(face_options(settings)); !usable) {
      tell(usable.error());
      return usable.error().code == Code::usage ? 2 : 3;
    }
  }
  // Block the signals before any thread starts, so that all inherit this and only this one waits.
  const auto signals = watched_signals();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  auto traces = start_exporter(settings);
  if (!traces) {
    tell(traces.error());
    return 2;
  }
  options.traces = *traces;
  options.ended = [] { ::kill(::getpid(), SIGUSR1); };
  auto server = broker::BrokerServer::start(std::move(options));
  if (!server) {
    tell(server.error());
    return server.error().code == Code::usage ? 2 : 3;
  }
  std::unique_ptr<http::Server> metrics;
  // The face shows them, too, so that one address may be both.
  if (!settings.metrics.empty() && settings.metrics != settings.http) {
    auto served = broker::serve_metrics(settings.metrics, !settings.keys.empty(), **server);
    if (!served) {
      tell(served.error());
      return served.error().code == Code::usage ? 2 : 3;
    }
    metrics = *std::move(served);
  }
  log_info("listening", {{"clients", (*server)->clients()},
                         {"engines", (*server)->engines()},
                         {"doorbell", (*server)->doorbell()},
                         {"push", (*server)->push()},
                         {"ledger", place->shown}});
  auto face = start_face(settings, *place, **server, *traces);
  if (!face) {
    tell(face.error());
    return face.error().code == Code::usage ? 2 : 3;
  }
  announce(**server, face->get(), metrics.get());
  const auto ended = serve(running, **server, face->get(), signals);
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
  broker::set_up_heap();
  auto line = broker::read_command_line(argc, argv);
  if (!line) {
    tell(line.error());
    return 2;
  }
  if (line->ended) return *line->ended;
  if (line->print_config) {
    std::fputs(broker::print_settings(line->settings).c_str(), stdout);
    return 0;
  }
  return run({argc, argv, std::move(line->settings)});
}
