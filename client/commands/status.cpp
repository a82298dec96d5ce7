// `millrace status`: prints the state of the broker, a batch, a stream or a job.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "client/commands/command.hpp"
#include "client/commands/load_text.hpp"
#include "client/run/engine_text.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/codec.hpp"
#include "schemas/json_fields.hpp"

namespace millrace::client {
namespace {

constexpr std::uint64_t silent_from_ms = 3 * limits::heartbeat_ms;

struct Flags {
  BrokerFlags broker;
  StatusRequest request;
  std::uint32_t watch_s = 0;  // 0: once
  std::string format = "text";
};

void print_json(const StatusAnswer& answer, const StatusRequest& request) {
  std::string line;
  JsonWriter out(line);
  out.begin_object().key("counts").begin_object();
  write_fields(out, answer.counts);
  out.end_object();
  if (answer.state) {
    out.field("job", request.job).field("state", wire_name(*answer.state));
    out.field("attempts", answer.attempts).field("stream", answer.job_stream);
    out.field("batch", answer.job_batch).field("number", answer.job_number);
    if (!answer.job_waits.empty()) {
      out.field("waits", answer.job_waits);
    }
  }
  if (!request.stream.empty()) {
    out.field("epoch", answer.epoch).field("first", answer.first).field("high", answer.high);
  }
  out.key("engines").begin_array();
  for (const EngineInfo& engine : answer.engines) {
    out.begin_object();
    write_fields(out, engine);
    out.end_object();
  }
  out.end_array().key("queues").begin_array();
  for (const TenantQueue& queue : answer.queues) {
    out.begin_object();
    write_fields(out, queue);
    out.end_object();
  }
  out.end_array().field("more_queues", answer.more_queues);
  out.field("draining", answer.draining).field("paused", answer.paused);
  if (!answer.refuses.empty()) {
    out.field("refuses", answer.refuses);
  }
  out.key("paused_models").begin_array();
  for (const std::string& model : answer.paused_models) {
    out.value(model);
  }
  out.end_array().end_object();
  std::printf("%s\n", line.c_str());
}

std::string engine_text(const EngineInfo& engine) {
  const EngineProfile& profile = engine.engine;
  const std::string silent = engine.silent_ms < silent_from_ms
                                 ? ""
                                 : "  silent for " + std::to_string(engine.silent_ms / 1000) + " s";
  return "engine " + printable_name(engine.name) + "  model " +
         printable_name(profile.facts.model) + "  " + printable_name(kv_text(profile)) +
         "  leases " + std::to_string(engine.leases) + "  " + rows_text(engine) + "  " +
         speed_text(engine) + silent + "  fingerprint " + printable_name(profile.facts.fingerprint);
}

std::string job_text(const StatusAnswer& answer, const StatusRequest& request) {
  const std::string given =
      answer.attempts == 0 ? "not handed out yet" : "handed out " + times_text(answer.attempts);
  const std::string result =
      answer.job_number == 0 ? "no result yet" : "result " + std::to_string(answer.job_number);
  return "job " + printable_name(request.job) + ": " + std::string(wire_name(*answer.state)) +
         ", " + given + ", stream " + printable_name(answer.job_stream) + ", " + result;
}

std::vector<std::string> broker_lines(const StatusAnswer& answer, const StatusRequest& request) {
  std::string counts;
  for (const auto& [name, jobs] :
       {std::pair("queued", answer.counts.queued), std::pair("leased", answer.counts.leased),
        std::pair("completed", answer.counts.completed), std::pair("failed", answer.counts.failed),
        std::pair("cancelled", answer.counts.cancelled),
        std::pair("expired", answer.counts.expired)}) {
    counts += (counts.empty() ? "" : "  ") + std::string(name) + " " + std::to_string(jobs);
  }
  std::vector<std::string> lines = {counts + (answer.draining ? "  (draining)" : "")};
  if (answer.paused) {
    lines.push_back(std::string("paused: ") + (request.batch.empty() ? "all jobs" : "the batch"));
  }
  for (const std::string& model : answer.paused_models) {
    lines.push_back("paused: the jobs for model " + printable_name(model));
  }
  if (!answer.refuses.empty()) {
    lines.push_back("new jobs are refused: " + printable_name(answer.refuses));
  }
  for (const TenantQueue& queue : answer.queues) {
    if (queue.queued + queue.leased == 0 && !queue.paused) {
      continue;
    }
    lines.push_back("queue of " + printable_name(queue.tenant) + ": " + queue_text(queue));
  }
  if (answer.more_queues) {
    lines.push_back("queues: only the first " + grouped(answer.queues.size()) +
                    " tenants by name are told; there are more");
  }
  for (const EngineInfo& engine : answer.engines) {
    const EngineProfile& profile = engine.engine;
    lines.push_back(engine_text(engine));
    for (const std::string& use : {kv_use_text(engine.load), prefix_text(engine.load)}) {
      if (!use.empty()) {
        lines.push_back("  " + use);
      }
    }
    for (const auto& [name, value] :
         {std::pair("label", profile.label), std::pair("runs", profile.layer_path),
          std::pair("memory", profile.kv_memory),
          std::pair("suggests", suggestion_text(profile))}) {
      if (!value.empty()) {
        lines.push_back("  " + std::string(name) + " " + printable_name(value));
      }
    }
  }
  if (answer.engines.empty() && request.batch.empty()) {
    lines.emplace_back("no engine");
  }
  return lines;
}

std::vector<std::string> text_lines(const StatusAnswer& answer, const StatusRequest& request) {
  if (answer.state) {
    std::vector<std::string> lines = {job_text(answer, request)};
    if (!answer.job_waits.empty()) {
      lines.push_back("waits: " + printable_name(answer.job_waits));
    }
    return lines;
  }
  if (!request.stream.empty()) {
    return {"stream " + printable_name(request.stream) + ": numbers " +
            std::to_string(answer.first) + " to " + std::to_string(answer.high) + ", epoch " +
            printable_name(answer.epoch)};
  }
  return broker_lines(answer, request);
}

// Breaks a line at spaces where it is longer than the terminal is wide, so that no word is broken.
std::string wrapped(std::string line, std::size_t columns) {
  std::string out;
  while (line.size() > columns) {
    const std::size_t space = line.rfind(' ', columns);
    if (space == std::string::npos || line.find_first_not_of(' ') >= space) {
      break;  // one word that has no room
    }
    out += line.substr(0, line.find_last_not_of(' ', space) + 1) + "\n";
    line = "    " + line.substr(space + 1);
  }
  return out + line;
}

void print_text(const StatusAnswer& answer, const StatusRequest& request) {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  for (const std::string& line : text_lines(answer, request)) {
    std::printf("%s\n", wrapped(line, known ? size.ws_col : std::string::npos).c_str());
  }
}

Status show(EventLoop& loop, const Flags& flags, bool json) {
  MILLRACE_ASSIGN(const auto answer, loop.request_as<StatusAnswer>(flags.request));
  if (flags.watch_s > 0 && !json && ::isatty(STDOUT_FILENO) != 0) {
    std::fputs("\x1b[H\x1b[J", stdout);  // the last one goes
  }
  if (json) {
    print_json(answer, flags.request);
  } else {
    print_text(answer, flags.request);
  }
  std::fflush(stdout);
  return {};
}

Status show_again(EventLoop& loop, const Clock& clock, const Flags& flags, bool json) {
  MILLRACE_TRY(show(loop, flags, json));
  while (flags.watch_s > 0) {
    const std::int64_t due_us = clock.monotonic_us() + flags.watch_s * 1'000 * us_per_ms;
    MILLRACE_TRY(loop.run({}, [&] { return clock.monotonic_us() >= due_us; }));
    MILLRACE_TRY(show(loop, flags, json));
  }
  return {};
}

int run(const Flags& flags, bool json) {
  if (flags.watch_s > 0) {
    remember_interrupts("", json);
  }
  const SystemClock clock;
  auto session = open_session(flags.broker, clock, json);
  if (!session) {
    return report_error(session.error(), json);
  }
  EventLoop loop(**session, clock, loop_options(flags.broker));
  const Status done = show_again(loop, clock, flags, json || flags.format == "json");
  return done ? exit_all_done : report_error(done.error(), json);
}

}  // namespace

void add_status_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "status",
      "Show what the broker holds: jobs by state, and engines.\n\n"
      "Examples:\n  millrace status\n  millrace status --batch jobs-1a2b3c4d --watch");
  auto flags = std::make_shared<Flags>();
  auto* job = command->add_option("--job", flags->request.job, "show one job")->type_name("ID");
  auto* batch = command->add_option("--batch", flags->request.batch, "show the jobs of one batch")
                    ->type_name("NAME");
  auto* stream =
      command->add_option("--stream", flags->request.stream, "show one stream")->type_name("NAME");
  command
      ->add_option("-w,--watch", flags->watch_s, "show it again and again, after so many seconds")
      ->type_name("SEC")
      ->expected(0, 1)
      ->default_str("2")
      ->check(CLI::Range(1, 86'400));
  command->add_option("-o,--output", flags->format, "text or json")
      ->type_name("FORMAT")
      ->check(CLI::IsMember(std::vector<std::string>{"text", "json"}))
      ->capture_default_str();
  job->excludes(batch)->excludes(stream);
  batch->excludes(stream);
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    StatusRequest& asked = flags->request;
    asked.queues = asked.job.empty() && asked.batch.empty() && asked.stream.empty();
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
