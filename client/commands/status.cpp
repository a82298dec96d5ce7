// `millrace status`: prints the state of the broker, a batch, a stream or a job.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <utility>

#include "client/commands/command.hpp"
#include "client/commands/times.hpp"
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
  out.end_array().field("draining", answer.draining).field("paused", answer.paused);
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

void print_text(const StatusAnswer& answer, const StatusRequest& request) {
  if (answer.state) {
    const std::string given =
        answer.attempts == 0 ? "not handed out yet" : "handed out " + times_text(answer.attempts);
    const std::string result =
        answer.job_number == 0 ? "no result yet" : "result " + std::to_string(answer.job_number);
    std::printf("job %s: %s, %s, stream %s, %s\n", printable_name(request.job).c_str(),
                std::string(wire_name(*answer.state)).c_str(), given.c_str(),
                printable_name(answer.job_stream).c_str(), result.c_str());
    if (!answer.job_waits.empty()) {
      std::printf("waits: %s\n", printable_name(answer.job_waits).c_str());
    }
    return;
  }
  if (!request.stream.empty()) {
    std::printf("stream %s: numbers %llu to %llu, epoch %s\n",
                printable_name(request.stream).c_str(), wide(answer.first), wide(answer.high),
                printable_name(answer.epoch).c_str());
    return;
  }
  const JobCounts& counts = answer.counts;
  std::printf(
      "queued %llu  leased %llu  completed %llu  failed %llu  cancelled %llu  expired "
      "%llu%s\n",
      wide(counts.queued), wide(counts.leased), wide(counts.completed), wide(counts.failed),
      wide(counts.cancelled), wide(counts.expired), answer.draining ? "  (draining)" : "");
  if (answer.paused) {
    std::printf("paused: %s\n", request.batch.empty() ? "all jobs" : "the batch");
  }
  for (const std::string& model : answer.paused_models) {
    std::printf("paused: the jobs for model %s\n", printable_name(model).c_str());
  }
  if (!answer.refuses.empty()) {
    std::printf("new jobs are refused: %s\n", printable_name(answer.refuses).c_str());
  }
  for (const EngineInfo& engine : answer.engines) {
    const EngineProfile& profile = engine.engine;
    const std::string silent =
        engine.silent_ms < silent_from_ms
            ? ""
            : "  silent for " + std::to_string(engine.silent_ms / 1000) + " s";
    std::printf("engine %s  model %s  %s  leases %u  rows %u  %.1f tokens/s%s  fingerprint %s\n",
                printable_name(engine.name).c_str(), printable_name(profile.facts.model).c_str(),
                printable_name(kv_text(profile)).c_str(), engine.leases, engine.rows,
                engine.tokens_per_second, silent.c_str(),
                printable_name(profile.facts.fingerprint).c_str());
    for (const auto& [name, value] :
         {std::pair("label", profile.label), std::pair("runs", profile.layer_path),
          std::pair("memory", profile.kv_memory),
          std::pair("suggests", suggestion_text(profile))}) {
      if (!value.empty()) {
        std::printf("  %s %s\n", name, printable_name(value).c_str());
      }
    }
  }
  if (answer.engines.empty() && request.batch.empty()) {
    std::printf("no engine\n");
  }
}

int run(const Flags& flags, bool json) {
  const auto answer = ask_broker<StatusAnswer>(flags.broker, flags.request, json);
  if (!answer) {
    return report_error(answer.error(), json);
  }
  if (json) {
    print_json(*answer, flags.request);
  } else {
    print_text(*answer, flags.request);
  }
  return exit_all_done;
}

}  // namespace

void add_status_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "status",
      "Show what the broker holds: jobs by state, and engines.\n\n"
      "Examples:\n  millrace status\n  millrace status --batch jobs-1a2b3c4d --json");
  auto flags = std::make_shared<Flags>();
  auto* job = command->add_option("--job", flags->request.job, "show one job")->type_name("ID");
  auto* batch = command->add_option("--batch", flags->request.batch, "show the jobs of one batch")
                    ->type_name("NAME");
  auto* stream =
      command->add_option("--stream", flags->request.stream, "show one stream")->type_name("NAME");
  job->excludes(batch)->excludes(stream);
  batch->excludes(stream);
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
