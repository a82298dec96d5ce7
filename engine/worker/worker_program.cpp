#include "engine/worker/worker_program.hpp"

#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <atomic>
#include <cstdio>

#include "engine/supervise/fleet.hpp"
#include "engine/worker/link.hpp"
#include "engine/worker/logged_executor.hpp"
#include "engine/worker/metered_executor.hpp"
#include "engine/worker/metrics_server.hpp"
#include "engine/worker/parent_watch.hpp"
#include "engine/worker/traced_executor.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/log.hpp"
#include "schemas/base/random_id.hpp"
#include "schemas/keys/key_file.hpp"
#include "schemas/trace/exporter.hpp"

namespace millrace::worker {
namespace {

// A signal handler can reach only statics.
std::atomic<Link*> signalled_link{nullptr};
std::atomic<int> last_signal{0};
static_assert(std::atomic<Link*>::is_always_lock_free);

void on_signal(int signal) {
  last_signal = signal;
  if (Link* link = signalled_link.load()) link->stop();
}

void handle_signals(Link* link) {
  signalled_link = link;
  struct sigaction action {};
  if (link != nullptr) {
    action.sa_handler = on_signal;
  } else {
    action.sa_handler = SIG_DFL;
  }
  ::sigaction(SIGTERM, &action, nullptr);
  ::sigaction(SIGINT, &action, nullptr);
}

// Null where nobody takes spans. `software` is a name and a version.
Result<std::shared_ptr<trace::Exporter>> start_exporter(const ProgramFlags& flags,
                                                        const std::string& software) {
  const auto space = software.find(' ');
  const std::string version = space == std::string::npos ? "" : software.substr(space + 1);
  MILLRACE_ASSIGN(auto settings,
                  trace::read_settings(flags.traces, {software.substr(0, space), version}));
  return trace::Exporter::start(std::move(settings));
}

}  // namespace

std::string host_name() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0) host[0] = '\0';
  return host[0] != '\0' ? host.data() : "engine";
}

void add_program_options(CLI::App& app, ProgramFlags& flags) {
  app.add_option("--broker", flags.broker,
                 "the broker's endpoint for engines; several brokers on one ledger: with commas")
      ->type_name("ADDR")
      ->capture_default_str();
  app.add_option("--key", flags.key, "file with this engine's key [none]")
      ->type_name("FILE")
      ->envname(key_variable);
  app.add_option("--name", flags.name, "name of this engine in status and logs [host:process]")
      ->type_name("NAME");
  app.add_option("--metrics", flags.metrics,
                 "HOST:PORT that shows metrics at /metrics [none]" +
                     at_length("Like 127.0.0.1:9465; port 0 chooses a free one, which the log "
                               "names. Without a key only this machine can reach it. With "
                               "--devices each further engine has the next port."))
      ->type_name("ADDR");
  app.add_option("--traces", flags.traces,
                 at_length("URL that takes spans of traces by OTLP over HTTP, like "
                           "http://127.0.0.1:4318 [none]. OpenTelemetry's environment variables "
                           "count, too: OTEL_EXPORTER_OTLP_ENDPOINT and what belongs to it. A "
                           "job has spans if its metadata has a traceparent that is sampled, or "
                           "as OTEL_TRACES_SAMPLER says."))
      ->type_name("URL");
  app.add_option("--drain-timeout", flags.drain_timeout_s,
                 "time to finish running jobs when told to stop")
      ->type_name("SEC")
      ->capture_default_str();
  app.add_flag("--die-with-parent", flags.die_with_parent,
               "end when the process that started this one ends");
  app.add_flag("--tell-joined", flags.tell_joined)->group("");  // for a supervisor; not in the help
  add_log_options(app, flags.log);
}

std::vector<std::string> program_arguments(const ProgramFlags& flags) {
  std::vector<std::string> out = {"--broker",        flags.broker,
                                  "--drain-timeout", std::to_string(flags.drain_timeout_s),
                                  "--log-level",     flags.log.level};
  if (!flags.key.empty()) out.insert(out.end(), {"--key", flags.key});
  if (!flags.traces.empty()) out.insert(out.end(), {"--traces", flags.traces});
  if (flags.log.json) out.emplace_back("--log-json");
  return out;
}

Status begin_program(const ProgramFlags& flags) {
  MILLRACE_TRY(set_up_log(flags.log));
  // All of this before the slow load of a model.
  MILLRACE_TRY(net::check_endpoints(flags.broker));
  const net::EndpointList brokers(flags.broker);
  for (const std::string& endpoint : brokers.all()) {
    MILLRACE_TRY(net::prepare_endpoint(endpoint));
  }
  MILLRACE_TRY(key_for(flags.key, flags.broker));
  MILLRACE_TRY(trace::check_url(flags.traces));
  if (flags.die_with_parent) MILLRACE_TRY(die_with_parent());
  return {};
}

int serve(const ProgramFlags& flags, const char* software, Executor& executor) {
  const SystemClock clock;
  net::Context context;
  SessionOptions options;
  options.name = flags.name.empty() ? host_name() + ":" + std::to_string(::getpid()) : flags.name;
  options.software = software;
  options.instance = random_id();
  options.drain_timeout_ms = flags.drain_timeout_s * 1'000;
  if (flags.tell_joined) {
    options.joined = [] {
      std::printf("%s\n", std::string(supervise::joined_line).c_str());
      std::fflush(stdout);
    };
  }
  const auto key = key_for(flags.key, flags.broker);
  if (!key) return report(software, key.error());
  LoggedExecutor logged(executor);
  Executor& told = log_enabled(LogLevel::debug) ? logged : executor;
  auto exporter = start_exporter(flags, software);
  if (!exporter) return report(software, exporter.error());
  std::optional<TracedExecutor> traced;
  if (*exporter) traced.emplace(told, **exporter, options.name, clock);
  MeteredExecutor metered(traced ? *traced : told);
  std::unique_ptr<http::Server> metrics;
  if (!flags.metrics.empty()) {
    auto served = serve_metrics(flags.metrics, !flags.key.empty(), metered);
    if (!served) return report(software, served.error());
    metrics = *std::move(served);
  }
  auto link = Link::open(context, flags.broker, {key->public_key, key->secret_key, key->broker_key},
                         std::move(options), metered, clock);
  if (!link) return report(software, link.error());
  handle_signals(link->get());
  const Status ended = (*link)->run();
  handle_signals(nullptr);
  if (!ended) {
    const int code = report(software, ended.error());
    return executor.failure() ? 1 : code;
  }
  log_info("left the broker");
  return last_signal == SIGINT ? 130 : 0;
}

int report(const char* program, const Error& error) {
  std::fprintf(stderr, "%s: %s: %s\n", program, std::string(code_name(error.code)).c_str(),
               error.message.c_str());
  if (!error.hint.empty()) std::fprintf(stderr, "  %s\n", error.hint.c_str());
  return error.code == Code::usage ? 2 : 3;
}

}  // namespace millrace::worker
