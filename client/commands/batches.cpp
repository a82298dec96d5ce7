// `millrace batches`: lists batches with their progress, shows, closes and labels one.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "client/commands/command.hpp"
#include "client/commands/list_output.hpp"
#include "client/commands/times.hpp"
#include "schemas/base/number_text.hpp"
#include "schemas/json_fields.hpp"

namespace millrace::client {
namespace {

struct Flags {
  BrokerFlags broker;
  ChangeBatch change;
  std::vector<std::string> labels;  // NAME=VALUE
  ListFlags list;
};

std::uint64_t all_jobs(const JobCounts& counts) {
  return counts.queued + counts.leased + counts.completed + counts.failed + counts.cancelled +
         counts.expired;
}

// "1,234 of 2,000 ended, 12 failed, 3.1 jobs/s, 4 minutes left"
std::string progress_text(const BatchState& batch) {
  const JobCounts& counts = batch.counts;
  const std::uint64_t all = all_jobs(counts);
  std::string out = std::to_string(all - counts.queued - counts.leased) + " of " +
                    count_text(all, "job") + " ended";
  for (const auto& [name, jobs] :
       {std::pair("failed", counts.failed), std::pair("cancelled", counts.cancelled),
        std::pair("expired", counts.expired)}) {
    out += jobs == 0 ? "" : ", " + std::to_string(jobs) + " " + name;
  }
  if (batch.eta_s) {
    std::array<char, 48> rate{};
    std::snprintf(rate.data(), rate.size(), ", %.2f jobs/s", batch.jobs_per_second);
    out += std::string(rate.data()) + ", about " + rough_age_text(*batch.eta_s) + " left";
  }
  return out;
}

std::string json_text(const BatchState& batch) {
  std::string line;
  JsonWriter out(line);
  out.begin_object();
  write_fields(out, batch);
  out.end_object();
  return line;
}

void print_json(const BatchState& batch) {
  std::printf("%s\n", json_text(batch).c_str());
}

std::string state_text(const BatchState& batch) {
  const std::string state = batch.finished_us ? "finished" : batch.closed ? "closed" : "open";
  return state + (batch.paused && !batch.finished_us ? ", paused" : "");
}

std::string row_text(const BatchState& batch) {
  return "batch " + batch.batch + ": " + state_text(batch) + ", " + progress_text(batch);
}

void print_row(const BatchState& batch) {
  std::printf("%s\n", printable(row_text(batch)).c_str());
}

const std::vector<std::string> columns = {"BATCH",  "STATE",     "JOBS",    "ENDED",   "COMPLETED",
                                          "FAILED", "CANCELLED", "EXPIRED", "CREATED", "LEFT"};

ListRow row_of(const BatchState& batch) {
  const JobCounts& counts = batch.counts;
  const std::uint64_t all = all_jobs(counts);
  return {.id = batch.batch,
          .text = row_text(batch),
          .cells = {batch.batch, state_text(batch), std::to_string(all),
                    std::to_string(all - counts.queued - counts.leased),
                    std::to_string(counts.completed), std::to_string(counts.failed),
                    std::to_string(counts.cancelled), std::to_string(counts.expired),
                    time_text(batch.created_us), batch.eta_s ? rough_age_text(*batch.eta_s) : ""},
          .json = json_text(batch)};
}

void print_facts(const BatchState& batch) {
  print_row(batch);
  const JobCounts& counts = batch.counts;
  std::printf(
      "  queued %llu  leased %llu  completed %llu  failed %llu  cancelled %llu  expired %llu\n",
      wide(counts.queued), wide(counts.leased), wide(counts.completed), wide(counts.failed),
      wide(counts.cancelled), wide(counts.expired));
  std::printf("  created: %s\n", time_text(batch.created_us).c_str());
  if (batch.finished_us) {
    std::printf("  finished: %s, entry %llu of stream %s\n", time_text(*batch.finished_us).c_str(),
                wide(batch.number), batches_stream);
  }
  for (const auto& [name, value] : batch.metadata) {
    std::printf("  %s=%s\n", printable(name).c_str(), printable(value).c_str());
  }
}

int list(const Flags& flags, bool json) {
  const SystemClock clock;
  auto session = open_session(flags.broker, clock, json);
  if (!session) {
    return report_error(session.error(), json);
  }
  EventLoop loop(**session, clock, loop_options(flags.broker));
  BatchesRequest wanted;
  ListOutput out(flags.list, json, columns);
  for (bool more = true; more;) {
    const auto answer = loop.request_as<BatchesAnswer>(wanted);
    if (!answer) {
      return report_error(answer.error(), json);
    }
    for (const BatchState& batch : answer->batches) {
      out.row(row_of(batch));
      wanted.after = batch.batch;
    }
    more = answer->more && !answer->batches.empty();
  }
  out.finish("no batch");
  return exit_all_done;
}

int show(const Flags& flags, bool json) {
  const auto answer =
      ask_broker<BatchesAnswer>(flags.broker, BatchesRequest{.batch = flags.change.batch}, json);
  if (!answer) {
    return report_error(answer.error(), json);
  }
  for (const BatchState& batch : answer->batches) {
    json ? print_json(batch) : print_facts(batch);
  }
  return exit_all_done;
}

int change(const Flags& flags, bool json) {
  const auto changed = ask_broker<BatchChanged>(flags.broker, flags.change, json);
  if (!changed) {
    return report_error(changed.error(), json);
  }
  json ? print_json(changed->batch) : print_facts(changed->batch);
  return exit_all_done;
}

int close(const Flags& flags, bool json) {
  Flags closing = flags;
  closing.change.close = true;
  return change(closing, json);
}

int label(const Flags& flags, bool json) {
  Flags labelling = flags;
  for (const std::string& text : flags.labels) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0) {
      return report_error({Code::usage, "'" + text + "' is no NAME=VALUE",
                           "give a name and a value; an empty value removes the name"},
                          json);
    }
    labelling.change.metadata[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return change(labelling, json);
}

}  // namespace

void add_batches_command(CLI::App& app, Invocation& invocation) {
  auto* group = app.add_subcommand(
      "batches",
      "List batches with their progress; show, close and label one.\n\n"
      "A closed batch takes no new jobs. When all its jobs have ended, the stream batches tells "
      "it.\n\n"
      "Examples:\n"
      "  millrace batches ls\n"
      "  millrace batches close evening\n"
      "  millrace batches label evening owner=me\n"
      "  millrace results batches --follow");
  group->require_subcommand(1);
  const auto add = [&](const char* name, const char* about, int (*run)(const Flags&, bool),
                       bool named = true) {
    auto* verb = group->add_subcommand(name, about);
    auto flags = std::make_shared<Flags>();
    if (named) {
      verb->add_option("batch", flags->change.batch, "name of the batch")->required();
    }
    if (run == label) {
      verb->add_option("labels", flags->labels, "NAME=VALUE, kept with the batch")->required();
    }
    if (run == list) {
      add_list_flags(*verb, flags->list);
    }
    add_broker_flags(*verb, flags->broker);
    verb->callback([&invocation, run, flags] {
      invocation.action = [&invocation, run, flags] { return run(*flags, invocation.json); };
    });
  };
  add("ls", "List batches, with how far they are.", list, false);
  add("show", "Show a batch: its jobs by state, its progress, its times and labels.", show);
  add("close", "Let no new jobs come to a batch.", close);
  add("label", "Keep names and values with a batch; an empty value removes a name.", label);
}

}  // namespace millrace::client
