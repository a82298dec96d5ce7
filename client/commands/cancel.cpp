// `millrace cancel`, `millrace retry` and `millrace jobs drop`, for jobs by id or for a whole
// batch.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "client/commands/command.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::client {
namespace {

struct Flags {
  BrokerFlags broker;
  std::vector<std::string> jobs;
  std::string batch;
};

Status check(const Flags& flags) {
  if (flags.jobs.empty() == flags.batch.empty()) {
    return fail(Code::usage, "name either jobs or a batch", "give ids of jobs, or --batch NAME");
  }
  return {};
}

struct Outcome {
  const char* name;
  const char* words;
  std::uint64_t jobs;
};
using Outcomes = std::vector<Outcome>;

// `by_id`: the user gave ids. Of a batch the broker counts only the jobs that the command concerns.
Outcomes outcomes(const Cancelled& answer, bool by_id) {
  Outcomes out{{"cancelled", "cancelled", answer.cancelled},
               {"requested", "running and asked to stop", answer.requested}};
  if (by_id) {
    out.push_back({"ended", "had ended already", answer.ended});
    out.push_back({"unknown", "unknown", answer.unknown});
  }
  return out;
}
Outcomes outcomes(const Retried& answer, bool by_id) {
  Outcomes out{{"retried", "queued again", answer.retried}};
  if (by_id) {
    out.push_back({"not_failed", "had not failed", answer.not_failed});
    out.push_back({"unknown", "unknown", answer.unknown});
  }
  return out;
}

Outcomes outcomes(const Dropped& answer, bool by_id) {
  Outcomes out{{"dropped", "forgotten", answer.dropped}};
  if (by_id) {
    out.push_back({"not_failed", "had not failed", answer.not_failed});
    out.push_back({"unknown", "unknown", answer.unknown});
  }
  return out;
}

void note_left_alone(const Cancelled&, bool) {}
void note_left_alone(const Dropped& answer, bool json) {
  if (answer.not_failed > 0 || answer.dropped + answer.unknown == 0) {
    print_notice("not_failed", "only failed jobs are dropped", json);
  }
}
void note_left_alone(const Retried& answer, bool json) {
  if (answer.not_failed > 0 || answer.retried + answer.unknown == 0) {
    print_notice(
        "not_failed",
        "only failed jobs are queued again; to run a cancelled or expired job, submit it under "
        "another id or --batch",
        json);
  }
}

void print(const Outcomes& outcomes, bool json) {
  std::string line;
  if (json) {
    JsonWriter out(line);
    out.begin_object();
    for (const Outcome& one : outcomes) {
      out.field(one.name, one.jobs);
    }
    out.end_object();
  } else {
    for (const Outcome& one : outcomes) {
      line += (line.empty() ? "" : ", ") + std::to_string(one.jobs) + " " + one.words;
    }
  }
  std::printf("%s\n", line.c_str());
}

constexpr std::size_t most_asked = 1'000, most_named = 5;

// The first of the ids, at most `most`, that the broker does not know. None where it does not say,
// as to a key that may not read.
std::vector<std::string> ids_not_found(const Flags& flags, std::size_t most, bool json) {
  const SystemClock clock;
  const auto session = open_session(flags.broker, clock, json);
  if (!session) return {};
  EventLoop loop(**session, clock, loop_options(flags.broker));
  std::vector<std::string> found;
  const std::size_t asked = std::min(flags.jobs.size(), most_asked);
  for (std::size_t i = 0; i < asked && found.size() < most; ++i) {
    const auto answer = loop.request_as<StatusAnswer>(StatusRequest{.job = flags.jobs[i]});
    if (answer) continue;
    if (answer.error().code != Code::not_found) return {};
    found.push_back(flags.jobs[i]);
  }
  return found;
}

// The broker's answer only counts the ids that it does not know. `dropped`: other jobs of the
// question are by now as unknown as those.
void note_unknown(const Flags& flags, std::uint64_t unknown, bool dropped, bool json) {
  const std::vector<std::string>& jobs = flags.jobs;
  const auto most = std::min<std::size_t>(unknown, most_named);
  std::vector<std::string> ids;
  if (unknown >= jobs.size()) {
    ids.assign(jobs.begin(),
               jobs.begin() + static_cast<std::ptrdiff_t>(std::min(most, jobs.size())));
  } else if (!dropped) {
    ids = ids_not_found(flags, most, json);
  }
  std::string which = unknown == 1 ? "one of the ids" : std::to_string(unknown) + " of the ids";
  std::string names;
  for (const std::string& id : ids) names += (names.empty() ? "" : ", ") + printable_name(id);
  if (!ids.empty() && ids.size() < unknown) names += " and others";
  if (!names.empty()) which += " (" + names + ")";
  if (jobs.size() == 1) which = "that id";
  print_notice("unknown",
               "the broker at " + endpoint_of(flags.broker) + " holds no job with " + which +
                   ": a result names its job as \"id\", and millrace status --job ID shows a job",
               json);
}

template <class Question, class Answer>
int ask(const Flags& flags, bool json) {
  if (const Status usable = check(flags); !usable) {
    return report_error(usable.error(), json);
  }
  const auto answer = ask_broker<Answer>(flags.broker, Question{flags.jobs, flags.batch}, json);
  if (!answer) {
    return report_error(answer.error(), json);
  }
  const Outcomes all = outcomes(*answer, flags.batch.empty());
  print(all, json);
  note_left_alone(*answer, json);
  if (answer->unknown == 0) {
    return exit_all_done;
  }
  note_unknown(flags, answer->unknown, std::is_same_v<Question, Drop>, json);
  return exit_some_failed;
}

template <class Question, class Answer>
void add(CLI::App& app, Invocation& invocation, const char* name, const char* about) {
  auto* command = app.add_subcommand(name, about);
  auto flags = std::make_shared<Flags>();
  command->add_option("jobs", flags->jobs, "ids of the jobs");
  command->add_option("--batch", flags->batch, "all jobs of this batch")->type_name("NAME");
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] {
      return ask<Question, Answer>(*flags, invocation.json);
    };
  });
}

}  // namespace

void add_cancel_command(CLI::App& app, Invocation& invocation) {
  add<Cancel, Cancelled>(
      app, invocation, "cancel",
      "End jobs early: queued jobs at once, running jobs after their step.\n\n"
      "Examples:\n  millrace cancel job-1 job-2\n  millrace cancel --batch jobs-1a2b3c4d");
}

void add_drop_verb(CLI::App& group, Invocation& invocation) {
  add<Drop, Dropped>(group, invocation, "drop",
                     "Forget failed jobs; what the stream holds of them stays.\n\n"
                     "Examples:\n  millrace jobs drop job-1\n"
                     "  millrace jobs drop --batch jobs-1a2b3c4d");
}

void add_retry_command(CLI::App& app, Invocation& invocation) {
  add<Retry, Retried>(app, invocation, "retry",
                      "Queue failed jobs again, with their attempts counted anew.\n\n"
                      "Examples:\n  millrace retry job-1\n  millrace retry --batch jobs-1a2b3c4d");
}

}  // namespace millrace::client
