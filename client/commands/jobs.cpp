// `millrace jobs`: lists jobs by state, batch and stream, shows one with its error, drops failed
// ones.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/commands/command.hpp"
#include "client/commands/times.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/codec.hpp"
#include "schemas/json_fields.hpp"

namespace millrace::client {
namespace {

struct Flags {
  BrokerFlags broker;
  JobsRequest wanted;
  std::string state;  // empty: any
  std::uint64_t limit = std::numeric_limits<std::uint64_t>::max();
  bool ids = false;
};

void print_json(const JobInfo& job) {
  std::string line;
  JsonWriter out(line);
  out.begin_object();
  write_fields(out, job);
  out.end_object();
  std::printf("%s\n", line.c_str());
}

// "paused", "waits until TIME", "with engine E", "result 7"
std::string place_text(const JobInfo& job) {
  if (job.paused) {
    return "paused";
  }
  if (job.not_before_us) {
    return "waits until " + time_text(*job.not_before_us);
  }
  if (!job.engine.empty()) {
    return "with engine " + printable(job.engine);
  }
  return job.number == 0 ? "no result yet" : "result " + std::to_string(job.number);
}

void print_row(const JobInfo& job) {
  const std::string label = job.custom_id.empty() ? "" : ", custom_id " + printable(job.custom_id);
  const std::string error = job.error ? ", " + printable(job.error->text()) : "";
  std::printf("job %s%s: %s, handed out %s, %s%s\n", printable(job.job).c_str(), label.c_str(),
              std::string(wire_name(job.state)).c_str(), times_text(job.attempts).c_str(),
              place_text(job).c_str(), error.c_str());
}

void print_facts(const JobInfo& job) {
  const auto fact = [](const char* name, const std::string& value) {
    if (!value.empty()) {
      std::printf("  %s: %s\n", name, printable(value).c_str());
    }
  };
  const auto time = [&](const char* name, std::optional<std::int64_t> unix_us) {
    fact(name, unix_us ? time_text(*unix_us) : "");
  };
  std::printf("job %s: %s\n", printable(job.job).c_str(),
              std::string(wire_name(job.state)).c_str());
  fact("custom_id", job.custom_id);
  fact("model", job.model);
  fact("stream", job.stream);
  fact("batch", job.batch);
  fact("priority", std::to_string(job.priority));
  fact("handed out", times_text(job.attempts));
  fact("failures of engines",
       std::to_string(job.failures) + " of at most " + std::to_string(job.max_attempts));
  fact("suspect", job.suspect ? "engines died while they ran it and other jobs" : "");
  fact("paused", job.paused ? "yes: millrace status --job tells what to resume" : "");
  fact("engine", job.engine);
  time("submitted", job.submitted_us);
  time("waits until", job.not_before_us);
  time("deadline", job.deadline_us);
  time("ended", job.ended_us);
  fact("result", job.number == 0 ? "" : "number " + std::to_string(job.number));
  fact("error", job.error ? job.error->text() : "");
}

int list(const Flags& flags, bool json) {
  const SystemClock clock;
  auto session = open_session(flags.broker, clock, json);
  if (!session) {
    return report_error(session.error(), json);
  }
  EventLoop loop(**session, clock, loop_options(flags.broker));
  JobsRequest wanted = flags.wanted;
  wanted.state = wire::from_name<JobState>(flags.state);
  std::uint64_t printed = 0;
  for (bool more = true; more && printed < flags.limit;) {
    auto answer = loop.request_as<JobsAnswer>(wanted);
    if (!answer) {
      return report_error(answer.error(), json);
    }
    for (const JobInfo& job : answer->jobs) {
      if (printed++ == flags.limit) {
        return exit_all_done;
      }
      if (flags.ids) {
        std::printf("%s\n", printable(job.job).c_str());
      } else {
        json ? print_json(job) : print_row(job);
      }
    }
    more = answer->more;
    wanted.after = std::move(answer->next);
  }
  // A misspelt batch must not look like one that has no such jobs.
  if (printed == 0 && !wanted.batch.empty()) {
    const auto batch = loop.request_as<BatchesAnswer>(BatchesRequest{.batch = wanted.batch});
    if (!batch) {
      return report_error(batch.error(), json);
    }
  }
  if (printed == 0 && !json && !flags.ids) {
    std::printf("no job\n");
  }
  return exit_all_done;
}

int show(const Flags& flags, bool json) {
  const auto answer = ask_broker<JobsAnswer>(flags.broker, flags.wanted, json);
  if (!answer) {
    return report_error(answer.error(), json);
  }
  for (const JobInfo& job : answer->jobs) {
    json ? print_json(job) : print_facts(job);
  }
  return exit_all_done;
}

}  // namespace

void add_jobs_command(CLI::App& app, Invocation& invocation) {
  auto* group = app.add_subcommand(
      "jobs",
      "List jobs, show one with its error, drop failed ones.\n\n"
      "millrace retry queues failed jobs again, and millrace cancel ends jobs early.\n\n"
      "Examples:\n"
      "  millrace jobs ls --state failed\n"
      "  millrace jobs show jobs-1a2b3c4d/3-4c23372f0fbb170b\n"
      "  millrace jobs ls --batch jobs-1a2b3c4d --state queued --ids");
  group->require_subcommand(1);
  auto listed = std::make_shared<Flags>(), shown = std::make_shared<Flags>();
  auto* ls = group->add_subcommand(
      "ls", "List jobs: of a batch as they were submitted, others by their ids.");
  const auto& states = wire::Names<JobState>::all;
  ls->add_option("--state", listed->state,
                 "queued, leased, completed, failed, cancelled or expired")
      ->type_name("STATE")
      ->check(CLI::IsMember(std::vector<std::string>(states.begin(), states.end())));
  ls->add_option("--batch", listed->wanted.batch, "jobs of this batch")->type_name("NAME");
  ls->add_option("--stream", listed->wanted.stream, "jobs whose results go to this stream")
      ->type_name("NAME");
  ls->add_option("--limit", listed->limit, "at most so many")->type_name("N");
  ls->add_flag("--ids", listed->ids, "print the ids alone");
  auto* one = group->add_subcommand("show", "Show a job, with the error that ended it.");
  one->add_option("job", shown->wanted.job, "id of the job")->required();
  add_broker_flags(*ls, listed->broker);
  add_broker_flags(*one, shown->broker);
  ls->callback([&invocation, listed] {
    invocation.action = [&invocation, listed] { return list(*listed, invocation.json); };
  });
  one->callback([&invocation, shown] {
    invocation.action = [&invocation, shown] { return show(*shown, invocation.json); };
  });
  add_drop_verb(*group, invocation);
}

}  // namespace millrace::client
