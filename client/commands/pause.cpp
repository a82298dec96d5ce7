// `millrace pause` and `millrace resume`, for a batch, for the queue of a model, or for all jobs.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "client/commands/command.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::client {
namespace {

struct Flags {
  BrokerFlags broker;
  ChangePause change;
};

Status check(const ChangePause& change) {
  const int named = int{!change.batch.empty()} + int{!change.model.empty()} + int{change.all};
  if (named == 1) {
    return {};
  }
  return fail(Code::usage, named == 0 ? "nothing is named" : "more than one thing is named",
              "give one of --batch NAME, --model NAME and --all");
}

// "batch evening", "the jobs for model m", "all jobs"
std::string what(const ChangePause& change) {
  if (change.all) {
    return "all jobs";
  }
  return change.batch.empty() ? "the jobs for model " + printable_name(change.model)
                              : "batch " + printable_name(change.batch);
}

int run(const Flags& flags, bool json) {
  if (const Status usable = check(flags.change); !usable) {
    return report_error(usable.error(), json);
  }
  const auto answer = ask_broker<PauseChanged>(flags.broker, flags.change, json);
  if (!answer) {
    return report_error(answer.error(), json);
  }
  if (json) {
    std::string line;
    JsonWriter out(line);
    out.begin_object().field("paused", flags.change.paused).field("changed", answer->changed);
    out.end_object();
    std::printf("%s\n", line.c_str());
    return exit_all_done;
  }
  const char* state = flags.change.paused ? "paused" : "not paused";
  const char* before = answer->changed ? "" : ", as before";
  std::printf("%s: %s%s\n", what(flags.change).c_str(), state, before);
  return exit_all_done;
}

void add(CLI::App& app, Invocation& invocation, const char* name, bool paused, const char* about) {
  auto* command = app.add_subcommand(name, about);
  auto flags = std::make_shared<Flags>();
  flags->change.paused = paused;
  command->add_option("--batch", flags->change.batch, "the jobs of this batch")->type_name("NAME");
  command->add_option("--model", flags->change.model, "the jobs that name this model; *: any model")
      ->type_name("NAME");
  command->add_flag("--all", flags->change.all, "all jobs of the tenant");
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace

void add_pause_commands(CLI::App& app, Invocation& invocation) {
  add(app, invocation, "pause", true,
      "Hand out no more jobs of a batch, for a model, or at all.\n\n"
      "Jobs that run end as ever, deadlines count, and jobs may be submitted.\n\n"
      "Examples:\n  millrace pause --batch evening\n  millrace pause --all");
  add(app, invocation, "resume", false,
      "Hand out jobs again that millrace pause holds back.\n\n"
      "Each pause is lifted by the resume that names the same thing.\n\n"
      "Examples:\n  millrace resume --batch evening\n  millrace resume --all");
}

}  // namespace millrace::client
