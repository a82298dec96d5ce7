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
#include "client/commands/list_output.hpp"
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
  ListFlags list;
};

std::string json_text(const JobInfo& job) {
  std::string line;
  JsonWriter out(line);
  out.begin_object();
  write_fields(out, job);
  out.end_object();
  return line;
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
    return "with engine " + job.engine;
  }
  return job.number == 0 ? "no result yet" : "result " + std::to_string(job.number);
}

const std::vector<std::string> columns = {"JOB",   "CUSTOM_ID",  "STATE",      "BATCH", "MODEL",
                                          "PLACE", "HANDED_OUT", "ERROR_CODE", "ERROR"};

ListRow row_of(const JobInfo& job) {
  const std::string label = job.custom_id.empty() ? "" : ", custom_id " + job.custom_id;
  const std::string state(wire_name(job.state));
  return {.id = job.job,
          .text = "job " + job.job + label + ": " + state + ", handed out " +
                  times_text(job.attempts) + ", " + place_text(job) +
                  (job.error ? ", " + job.error->text() : ""),
          .cells = {job.job, job.custom_id, state, job.batch, job.model, place_text(job),
                    std::to_string(job.attempts),
                    job.error ? std::string(code_name(job.error->code)) : "",
                    job.error ? job.error->message : ""},
          .json = json_text(job)};
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
  ListOutput out(flags.list, json, columns);
  std::uint64_t printed = 0;
  for (bool more = true; more && printed < flags.limit;) {
    auto answer = loop.request_as<JobsAnswer>(wanted);
    if (!answer) {
      return report_error(answer.error(), json);
    }
    for (const JobInfo& job : answer->jobs) {
      if (printed == flags.limit) {
        break;
      }
      ++printed;
      out.row(row_of(job));
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
  out.finish("no job");
  return exit_all_done;
}

int show(const Flags& flags, bool json) {
  const auto answer = ask_broker<JobsAnswer>(flags.broker, flags.wanted, json);
  if (!answer) {
    return report_error(answer.error(), json);
  }
  for (const JobInfo& job : answer->jobs) {
    if (json) {
      std::printf("%s\n", json_text(job).c_str());
    } else {
      print_facts(job);
    }
  }
  return exit_all_done;
}

// The verbs that `jobs` and `dlq` share.
void add_ls_and_show(CLI::App& group, Invocation& invocation, const char* about_ls,
                     const std::string& only_state) {
  auto listed = std::make_shared<Flags>(), shown = std::make_shared<Flags>();
  listed->state = only_state;
  auto* ls = group.add_subcommand("ls", about_ls);
  const auto& states = wire::Names<JobState>::all;
  if (only_state.empty()) {
    ls->add_option("--state", listed->state,
                   "queued, leased, completed, failed, cancelled or expired")
        ->type_name("STATE")
        ->check(CLI::IsMember(std::vector<std::string>(states.begin(), states.end())));
  }
  ls->add_option("--batch", listed->wanted.batch, "jobs of this batch")->type_name("NAME");
  ls->add_option("--stream", listed->wanted.stream, "jobs whose results go to this stream")
      ->type_name("NAME");
  ls->add_option("--limit", listed->limit, "at most so many")
      ->type_name("N")
      ->check(CLI::Range(std::uint64_t{1}, most_number));
  add_list_flags(*ls, listed->list);
  auto* one = group.add_subcommand("show", "Show a job, with the error that ended it.");
  one->add_option("job", shown->wanted.job, "id of the job")->required();
  add_broker_flags(*ls, listed->broker);
  add_broker_flags(*one, shown->broker);
  ls->callback([&invocation, listed] {
    invocation.action = [&invocation, listed] { return list(*listed, invocation.json); };
  });
  one->callback([&invocation, shown] {
    invocation.action = [&invocation, shown] { return show(*shown, invocation.json); };
  });
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
      "  millrace jobs ls --batch jobs-1a2b3c4d --state queued -q");
  group->require_subcommand(1);
  add_ls_and_show(*group, invocation,
                  "List jobs: of a batch as they were submitted, others by their ids.", "");
  add_drop_verb(*group, invocation);
}

void add_dlq_command(CLI::App& app, Invocation& invocation) {
  auto* group =
      app.add_subcommand("dlq",
                         "List, show, retry and drop failed jobs: the dead letters.\n\n"
                         "The same as jobs ls --state failed, jobs show, retry and jobs drop.\n\n"
                         "Examples:\n"
                         "  millrace dlq ls --batch jobs-1a2b3c4d\n"
                         "  millrace dlq retry --batch jobs-1a2b3c4d");
  group->require_subcommand(1);
  add_ls_and_show(*group, invocation, "List failed jobs with their errors.",
                  std::string(wire_name(JobState::failed)));
  add_retry_command(*group, invocation);
  add_drop_verb(*group, invocation);
}

}  // namespace millrace::client
