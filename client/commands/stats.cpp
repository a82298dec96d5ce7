// `millrace stats`: sums over the results of a stretch of time.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "client/commands/command.hpp"
#include "client/commands/list_output.hpp"
#include "client/commands/load_text.hpp"
#include "client/commands/result_totals.hpp"
#include "client/commands/stretch.hpp"
#include "client/commands/times.hpp"
#include "client/link/entry_result.hpp"
#include "client/link/stream_reader.hpp"
#include "schemas/base/command_units.hpp"

namespace millrace::client {
namespace {

constexpr std::size_t most_groups = 1'000;
constexpr const char* other_groups = "(others)";
constexpr std::int64_t us_per_s = 1'000 * us_per_ms;

struct Flags {
  BrokerFlags broker;
  ListFlags list;
  std::vector<std::string> streams;
  std::string since, until, by = "all", batch;
  std::uint64_t last_s = 3'600;
};

struct Group {
  Stretch stretch;  // that its rates are over
  ResultTotals totals;
};

Result<Stretch> stretch_of(const Flags& flags, std::int64_t now_us) {
  MILLRACE_ASSIGN(const auto since, parse_time(flags.since, "--since", now_us));
  MILLRACE_ASSIGN(const auto until, parse_time(flags.until, "--until", now_us));
  Stretch out;
  out.to_us = std::min(until.value_or(now_us), now_us);
  out.from_us = since.value_or(out.to_us - static_cast<std::int64_t>(flags.last_s) * us_per_s);
  if (out.from_us >= out.to_us) {
    return fail(Code::usage,
                "the stretch of time from " + time_text(out.from_us) + " to " +
                    time_text(out.to_us) + " is empty",
                "give a --since that is before --until and has passed");
  }
  return out;
}

class StatsRun final : public EntrySink {
 public:
  StatsRun(const Flags& flags, bool json) : flags_(flags), json_(json) {}

  Status run();
  void print() const;

  Status on_entries(const std::vector<Entry>& entries) override;
  Status on_stream_error(Error error) override;

 private:
  Result<std::vector<std::string>> streams(EventLoop& loop) const;
  Result<std::uint64_t> first_of(EventLoop& loop, const std::string& stream) const;
  Status read(EventLoop& loop, const std::string& stream);
  std::string group_of(const JobResult& result) const;
  // The hour or minute that results are grouped by; 0 where they are grouped by something else.
  std::int64_t unit_us() const;

  const Flags& flags_;
  bool json_;
  SystemClock clock_;
  std::unique_ptr<Session> session_;
  Stretch stretch_;
  std::map<std::string, Group> groups_;
  StreamReader* reader_ = nullptr;
  std::string stream_;   // that is read
  bool passed_ = false;  // a result that ended after the stretch was read
  std::uint64_t unreadable_ = 0;
};

Result<std::vector<std::string>> StatsRun::streams(EventLoop& loop) const {
  if (!flags_.streams.empty()) {
    return flags_.streams;
  }
  std::vector<std::string> out;
  for (StreamsRequest request;;) {
    MILLRACE_ASSIGN(const StreamsAnswer answer, loop.request_as<StreamsAnswer>(request));
    for (const StreamState& stream : answer.streams) {
      out.push_back(stream.stream);
    }
    if (!answer.more || answer.streams.empty()) {
      return out;
    }
    request.after = answer.streams.back().stream;
  }
}

// Results stand in the order of their ends, so halving finds the first of the stretch.
Result<std::uint64_t> StatsRun::first_of(EventLoop& loop, const std::string& stream) const {
  std::uint64_t low = 1, high = std::numeric_limits<std::uint64_t>::max();
  Fetch fetch{.stream = stream, .epoch = {}, .from = 1, .cursor = {}, .max_entries = 1};
  for (bool first = true; low < high; first = false) {
    fetch.from = first ? 1 : low + (high - low) / 2;
    MILLRACE_ASSIGN(const Message message, loop.request(fetch));
    if (const auto* trimmed = std::get_if<Trimmed>(&message)) {
      low = std::max(low, trimmed->first);
      if (first) {
        fetch.from = low;
        MILLRACE_ASSIGN(const Data data, loop.request_as<Data>(fetch));
        high = data.high + 1;
      }
      continue;
    }
    const auto* data = std::get_if<Data>(&message);
    if (data == nullptr) {
      return fail(Code::unexpected_message, "the broker answered a fetch with another message",
                  "report it: client and broker disagree on the protocol");
    }
    if (first) {
      low = std::max<std::uint64_t>(1, data->first);
      high = data->high + 1;
      continue;
    }
    const auto result =
        data->entries.empty() ? fail(Code::internal, "") : decode_entry(data->entries[0], stream);
    if (result && result->ended_us < stretch_.from_us) {
      low = fetch.from + 1;
    } else {
      high = fetch.from;
    }
  }
  return low;
}

Status StatsRun::read(EventLoop& loop, const std::string& stream) {
  StreamReaderOptions options;
  options.stream = stream;
  MILLRACE_ASSIGN(options.from, first_of(loop, stream));
  options.follow = false;
  StreamReader reader(*session_, clock_, options, *this);
  reader_ = &reader;
  stream_ = stream;
  passed_ = false;
  return loop.run({&reader}, [&] { return passed_ || reader.caught_up(); });
}

Status StatsRun::on_entries(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    const Result<JobResult> result = decode_entry(entry, stream_);
    if (!result) {
      ++unreadable_;
      continue;
    }
    if (result->counts || result->ended_us < stretch_.from_us) {
      continue;
    }
    if (result->ended_us >= stretch_.to_us) {
      passed_ = true;
      continue;
    }
    if (!flags_.batch.empty() && result->batch != flags_.batch) {
      continue;
    }
    std::string name = group_of(*result);
    const bool fits = groups_.size() < most_groups || groups_.contains(name);
    const std::int64_t unit_us = fits ? this->unit_us() : 0;
    Group& group = groups_[fits ? std::move(name) : other_groups];
    group.stretch = unit_us > 0 ? stretch_.part_of_unit(result->ended_us, unit_us) : stretch_;
    group.totals.add(*result);
  }
  return {};
}

Status StatsRun::on_stream_error(Error error) {
  if (error.code != Code::trimmed || reader_->first_kept() == 0) {
    return fail(std::move(error));
  }
  reader_->move_to(reader_->first_kept());  // results that went while the stream was read
  return {};
}

std::int64_t StatsRun::unit_us() const {
  return flags_.by == "hour" ? 3'600 * us_per_s : flags_.by == "minute" ? 60 * us_per_s : 0;
}

std::string StatsRun::group_of(const JobResult& result) const {
  if (flags_.by == "model") {
    return result.result ? result.result->effective.engine.model : result.model;
  }
  if (flags_.by == "stream") {
    return stream_;
  }
  if (flags_.by == "batch") {
    return result.batch.empty() ? "(none)" : result.batch;
  }
  if (const std::int64_t unit = unit_us(); unit > 0) {
    return time_text(result.ended_us / unit * unit);
  }
  return "all";
}

Status StatsRun::run() {
  MILLRACE_ASSIGN(stretch_, stretch_of(flags_, clock_.wall_us()));
  MILLRACE_ASSIGN(session_, open_session(flags_.broker, clock_, json_));
  EventLoopOptions options = loop_options(flags_.broker);
  options.absence = Absence::is_failure;
  EventLoop loop(*session_, clock_, std::move(options));
  MILLRACE_ASSIGN(const std::vector<std::string> streams, this->streams(loop));
  for (const std::string& stream : streams) {
    MILLRACE_TRY(read(loop, stream));
  }
  if (unreadable_ > 0) {
    print_notice("unreadable",
                 std::to_string(unreadable_) +
                     " results could not be read and are left out; "
                     "`millrace results` names them",
                 json_);
  }
  return {};
}

std::string text_of(const std::string& name, const Group& group) {
  const ResultTotals& totals = group.totals;
  const auto rate = [seconds = group.stretch.seconds()](std::uint64_t count) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", static_cast<double>(count) / seconds);
    return std::string(text);
  };
  const std::string cached = share_text(totals.cached_tokens, totals.prompt_tokens);
  std::string ends;
  for (const auto& [jobs, what] :
       {std::pair(totals.failed, "failed"), std::pair(totals.cancelled, "cancelled"),
        std::pair(totals.expired, "expired")}) {
    ends += jobs == 0 ? "" : ", " + grouped(jobs) + " " + what;
  }
  return name + ": " + grouped(totals.jobs()) + (totals.jobs() == 1 ? " job" : " jobs") + ends +
         ", " + rate(totals.jobs()) + " a second\n" + "  tokens of prompts   " +
         grouped(totals.prompt_tokens) +
         (cached.empty() ? "" : " (" + cached + " from the prefix cache)") + ", " +
         rate(totals.prompt_tokens) + " a second\n" + "  tokens of answers   " +
         grouped(totals.completion_tokens) + ", " + rate(totals.completion_tokens) + " a second\n" +
         "  wait until begun    " + percentiles_text(totals.wait) + "\n" +
         "  to the first token  " + percentiles_text(totals.first_token) + "\n" +
         "  to the end          " + percentiles_text(totals.whole);
}

void StatsRun::print() const {
  ListOutput out(flags_.list, json_,
                 {"group", "jobs", "failed", "prompt_tokens", "cached_tokens", "completion_tokens",
                  "wait_p50_ms", "wait_p99_ms", "first_token_p50_ms", "first_token_p99_ms",
                  "whole_p50_ms", "whole_p99_ms"});
  for (const auto& [name, group] : groups_) {
    const ResultTotals& totals = group.totals;
    const auto ms = [](const Percentiles& times, double share) {
      return times.count() == 0 ? "" : std::to_string((times.at(share) + 500) / 1'000);
    };
    ListRow row;
    row.id = name;
    row.text = text_of(printable_name(name), group);
    row.cells = {name,
                 std::to_string(totals.jobs()),
                 std::to_string(totals.failed),
                 std::to_string(totals.prompt_tokens),
                 std::to_string(totals.cached_tokens),
                 std::to_string(totals.completion_tokens),
                 ms(totals.wait, 0.5),
                 ms(totals.wait, 0.99),
                 ms(totals.first_token, 0.5),
                 ms(totals.first_token, 0.99),
                 ms(totals.whole, 0.5),
                 ms(totals.whole, 0.99)};
    JsonWriter json(row.json);
    json.begin_object();
    if (flags_.by != "all") {
      json.field(flags_.by, name);
    }
    json.field("from_us", group.stretch.from_us).field("to_us", group.stretch.to_us);
    write_totals(json, totals, group.stretch.seconds());
    json.end_object();
    out.row(std::move(row));
  }
  out.finish("no job ended between " + time_text(stretch_.from_us) + " and " +
             time_text(stretch_.to_us));
}

int run(const Flags& flags, bool json) {
  StatsRun stats(flags, json);
  if (const Status done = stats.run(); !done) {
    return report_error(done.error(), json);
  }
  stats.print();
  return exit_all_done;
}

}  // namespace

void add_stats_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "stats",
      "Sum up the results of a stretch of time: jobs, tokens, latencies.\n\n"
      "It reads the results that the broker still holds. Times count from a job's submission; a "
      "job "
      "that failed and was retried counts each time. A key sees the results of its tenant.\n\n"
      "Examples:\n"
      "  millrace stats\n"
      "  millrace stats --last 24h --by hour -o csv\n"
      "  millrace stats results --since 2030-01-31T22:00:00Z --by model");
  auto flags = std::make_shared<Flags>();
  command->add_option("streams", flags->streams, "the streams [all]")->type_name("STREAM");
  auto* last = command->add_option("--last", flags->last_s, "so long, up to now or to --until")
                   ->type_name("TIME")
                   ->default_str("1h");
  takes_duration(*last);
  command->add_option("--since", flags->since, "from this time on, 2030-01-31T22:00:00Z")
      ->type_name("TIME")
      ->excludes(last);
  command->add_option("--until", flags->until, "up to this time [now]")->type_name("TIME");
  command->add_option("--by", flags->by, "all, model, stream, batch, hour or minute")
      ->type_name("WHAT")
      ->capture_default_str()
      ->check(CLI::IsMember(
          std::vector<std::string>{"all", "model", "stream", "batch", "hour", "minute"}));
  command->add_option("--batch", flags->batch, "the jobs of this batch alone")->type_name("NAME");
  add_list_flags(*command, flags->list);
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
