// `millrace cancel` and `millrace retry`: jobs by id, or a whole batch.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <vector>

#include "client/commands/command.hpp"
#include "client/lines/json_writer.hpp"

namespace millrace::client {
namespace {

struct Flags {
  BrokerFlags broker;
  std::vector<std::string> jobs;
  std::string batch;
};

Status check(const Flags& flags) {
  if (flags.jobs.empty() == flags.batch.empty()) {
    return fail(Code::usage, "name either jobs or a batch");
  }
  return {};
}

int cancel(const Flags& flags, bool json) {
  if (const Status usable = check(flags); !usable) {
    return report_error(usable.error(), json);
  }
  const auto answer = ask_broker<Cancelled>(flags.broker, Cancel{flags.jobs, flags.batch}, json);
  if (!answer) {
    return report_error(answer.error(), json);
  }
  if (json) {
    std::string line;
    JsonWriter(line)
        .begin_object()
        .field("cancelled", answer->cancelled)
        .field("requested", answer->requested)
        .field("ended", answer->ended)
        .field("unknown", answer->unknown)
        .end_object();
    std::printf("%s\n", line.c_str());
  } else {
    std::printf("%llu cancelled, %llu running and asked to stop, %llu had ended, %llu unknown\n",
                static_cast<unsigned long long>(answer->cancelled),
                static_cast<unsigned long long>(answer->requested),
                static_cast<unsigned long long>(answer->ended),
                static_cast<unsigned long long>(answer->unknown));
  }
  return answer->unknown == 0 ? exit_all_done : exit_some_failed;
}

int retry(const Flags& flags, bool json) {
  if (const Status usable = check(flags); !usable) {
    return report_error(usable.error(), json);
  }
  const auto answer = ask_broker<Retried>(flags.broker, Retry{flags.jobs, flags.batch}, json);
  if (!answer) {
    return report_error(answer.error(), json);
  }
  if (json) {
    std::string line;
    JsonWriter(line)
        .begin_object()
        .field("retried", answer->retried)
        .field("not_failed", answer->not_failed)
        .field("unknown", answer->unknown)
        .end_object();
    std::printf("%s\n", line.c_str());
  } else {
    std::printf("%llu queued again, %llu had not failed, %llu unknown\n",
                static_cast<unsigned long long>(answer->retried),
                static_cast<unsigned long long>(answer->not_failed),
                static_cast<unsigned long long>(answer->unknown));
  }
  return answer->unknown == 0 ? exit_all_done : exit_some_failed;
}

template <class Run>
void add(CLI::App& app, Invocation& invocation, const char* name, const char* about, Run run) {
  auto* command = app.add_subcommand(name, about);
  auto flags = std::make_shared<Flags>();
  command->add_option("jobs", flags->jobs, "job ids");
  command->add_option("--batch", flags->batch, "all jobs of this batch");
  add_broker_flags(*command, flags->broker, true);
  command->callback([&invocation, flags, run] {
    invocation.action = [&invocation, flags, run] { return run(*flags, invocation.json); };
  });
}

}  // namespace

void add_cancel_command(CLI::App& app, Invocation& invocation) {
  add(app, invocation, "cancel",
      "End jobs early: queued ones at once, running ones by the end of their step\n\n"
      "Examples:\n  millrace cancel job-1 job-2\n  millrace cancel --batch jobs-1a2b3c4d",
      cancel);
}

void add_retry_command(CLI::App& app, Invocation& invocation) {
  add(app, invocation, "retry",
      "Queue failed jobs again, their counters cleared\n\n"
      "Examples:\n  millrace retry job-1\n  millrace retry --batch jobs-1a2b3c4d",
      retry);
}

}  // namespace millrace::client
