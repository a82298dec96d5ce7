// `millrace top`: the broker's queues, engines and batches, live.
#include "client/commands/top.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <optional>
#include <utility>

#include "client/commands/quiet_session.hpp"
#include "client/commands/terminal_screen.hpp"
#include "client/commands/top_frame.hpp"
#include "client/commands/top_keys.hpp"
#include "schemas/json_fields.hpp"

namespace millrace::client {
namespace {

constexpr std::int64_t us_per_s = 1'000 * us_per_ms;
constexpr std::uint32_t most_pages = 20;  // of batches in one round
constexpr double newest_weight = 0.3;     // of the newest rate
constexpr std::uint32_t key_ms = 50;      // between looks for a key

struct Flags {
  BrokerFlags broker;
  std::uint32_t interval_s = 1;
  bool once = false;
};

std::string time_of_day(std::int64_t unix_us) {
  const auto seconds = static_cast<std::time_t>(unix_us / us_per_s);
  std::tm local{};
  ::localtime_r(&seconds, &local);
  std::array<char, 16> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%H:%M:%S", &local)};
}

std::uint64_t ended(const JobCounts& counts) {
  return counts.completed + counts.failed + counts.cancelled + counts.expired;
}

// Asks the broker round by round and keeps what it answers as a view.
class TopWatch final : public EventHandler {
 public:
  TopWatch(Session& session, const Clock& clock, const Flags& flags)
      : session_(session), clock_(clock), interval_us_(flags.interval_s * us_per_s) {
    view_.endpoint = session.endpoint();
  }

  std::uint64_t rounds() const { return rounds_; }
  TopView& view() { return view_; }

  Status tick() override;
  Result<bool> take(Envelope& answer) override;

 private:
  void take_status(StatusAnswer& status);
  void take_batches(BatchesAnswer& answer);
  void end_round();

  Session& session_;
  const Clock& clock_;
  std::int64_t interval_us_;
  TopView view_;
  std::uint64_t rounds_ = 0;
  std::uint64_t status_ = 0, batches_ = 0;  // open questions; 0: none
  std::int64_t asked_us_ = std::numeric_limits<std::int64_t>::min() / 2;
  std::uint32_t pages_ = 0;
  std::vector<BatchState> open_batches_;                          // of this round
  std::optional<std::pair<std::int64_t, std::uint64_t>> before_;  // time and ended jobs
};

Status TopWatch::tick() {
  const std::int64_t now = clock_.monotonic_us();
  view_.away = !session_.ready();
  view_.clock = time_of_day(clock_.wall_us());
  if (session_.ready() && status_ == 0 && batches_ == 0 && now - asked_us_ >= interval_us_) {
    asked_us_ = now;
    pages_ = 0;
    open_batches_.clear();
    status_ = session_.ask(StatusRequest{.queues = true});
    batches_ = session_.ask(BatchesRequest{.unfinished = true});
  }
  return {};
}

Result<bool> TopWatch::take(Envelope& answer) {
  if (const auto* refused = std::get_if<Refused>(&answer.message);
      refused != nullptr && (answer.id == status_ || answer.id == batches_)) {
    return fail(refused->error);
  }
  if (answer.id == status_ && std::holds_alternative<StatusAnswer>(answer.message)) {
    status_ = 0;
    take_status(std::get<StatusAnswer>(answer.message));
  } else if (answer.id == batches_ && std::holds_alternative<BatchesAnswer>(answer.message)) {
    batches_ = 0;
    take_batches(std::get<BatchesAnswer>(answer.message));
  } else {
    return false;
  }
  if (status_ == 0 && batches_ == 0) {
    end_round();
  }
  return true;
}

void TopWatch::take_status(StatusAnswer& status) {
  const std::int64_t now = clock_.monotonic_us();
  const std::uint64_t all = ended(status.counts);
  if (before_ && now > before_->first && all >= before_->second) {
    const double rate = static_cast<double>(all - before_->second) * 1e6 /
                        static_cast<double>(now - before_->first);
    view_.jobs_per_second += newest_weight * (rate - view_.jobs_per_second);
  }
  before_ = {now, all};
  view_.status = std::move(status);
  view_.asked = true;
}

void TopWatch::take_batches(BatchesAnswer& answer) {
  // A broker of before says no `next`, and tells finished batches too.
  const std::string last =
      !answer.next.empty() || answer.batches.empty() ? answer.next : answer.batches.back().batch;
  for (BatchState& batch : answer.batches) {
    if (!batch.finished_us && batch.counts.queued + batch.counts.leased > 0) {
      open_batches_.push_back(std::move(batch));
    }
  }
  if (answer.more && !last.empty() && ++pages_ < most_pages) {
    batches_ = session_.ask(BatchesRequest{.batch = {}, .after = last, .unfinished = true});
    return;
  }
  view_.more_batches = answer.more;
}

void TopWatch::end_round() {
  std::ranges::sort(open_batches_, {}, &BatchState::created_us);
  view_.batches = std::move(open_batches_);
  open_batches_.clear();
  if (rounds_++ == 0) {  // until a second round tells
    for (const BatchState& batch : view_.batches) {
      view_.jobs_per_second += batch.jobs_per_second;
    }
  }
  const JobCounts& counts = view_.status.counts;
  const auto open = static_cast<double>(counts.queued + counts.leased);
  view_.seconds_left.reset();
  if (open > 0 && view_.jobs_per_second > 0.001) {
    view_.seconds_left = open / view_.jobs_per_second;
  }
}

void print_json(const TopView& view) {
  std::string line;
  JsonWriter out(line);
  out.begin_object().key("counts").begin_object();
  write_fields(out, view.status.counts);
  out.end_object().field("jobs_per_second", view.jobs_per_second);
  if (view.seconds_left) {
    out.field("seconds_left", *view.seconds_left);
  }
  if (const auto oldest = oldest_ms(view.status)) {
    out.field("oldest_ms", *oldest);
  }
  out.key("queues").begin_array();
  for (const TenantQueue& queue : view.status.queues) {
    out.begin_object();
    write_fields(out, queue);
    out.end_object();
  }
  out.end_array().field("more_queues", view.status.more_queues);
  out.key("engines").begin_array();
  for (const EngineInfo& engine : view.status.engines) {
    out.begin_object();
    write_fields(out, engine);
    out.end_object();
  }
  out.end_array().key("batches").begin_array();
  for (const BatchState& batch : view.batches) {
    out.begin_object();
    write_fields(out, batch);
    out.end_object();
  }
  out.end_array().field("more_batches", view.more_batches).end_object();
  std::printf("%s\n", line.c_str());
}

// Bold, in a terminal.
std::vector<std::string> drawn(const std::vector<TopLine>& frame) {
  std::vector<std::string> lines;
  for (const TopLine& line : frame) {
    lines.push_back(line.heading ? "\x1b[1m" + line.text + "\x1b[0m" : line.text);
  }
  return lines;
}

Status show_live(EventLoop& loop, TopWatch& watch) {
  TerminalScreen screen;
  TopView frozen;
  bool quit = false;
  const Status done = loop.run({&watch}, [&] {
    quit = take_keys(screen, watch.view(), frozen);
    const TopView& shown = watch.view().frozen ? frozen : watch.view();
    // One column stays free: what follows a full line would erase its end.
    screen.draw(drawn(top_frame(shown, screen.columns() - 1, screen.rows())));
    return quit;
  });
  return done;
}

int run(const Flags& flags, bool json) {
  const bool live =
      !flags.once && !json && ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  remember_interrupts("", json);
  const SystemClock clock;
  // What the session reports would be drawn over.
  auto session =
      live ? open_quiet_session(flags.broker, clock) : open_session(flags.broker, clock, json);
  if (!session) {
    return report_error(session.error(), json);
  }
  EventLoopOptions options = loop_options(flags.broker);
  options.tick_ms = key_ms;
  EventLoop loop(**session, clock, std::move(options));
  TopWatch watch(**session, clock, flags);
  Status done;
  if (live) {
    done = show_live(loop, watch);
  } else {
    done = loop.run({&watch}, [&] { return watch.rounds() > 0; });
  }
  if (!done) {
    return report_error(done.error(), json);
  }
  if (json) {
    print_json(watch.view());
  } else if (!live) {
    constexpr std::size_t any_rows = 10'000, columns = 120;
    std::vector<TopLine> lines = top_frame(watch.view(), columns, any_rows);
    lines.pop_back();  // the keys
    for (const TopLine& line : lines) {
      std::printf("%s\n", line.text.c_str());
    }
  }
  return exit_all_done;
}

}  // namespace

void add_top_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "top",
      "Show engines, queues and unfinished batches, live.\n\n"
      "The key q ends it, p stops the display and lets it go on, Tab shows one part of it alone, "
      "and the arrow keys (also j and k, Page Up and Page Down) scroll there. CACHED is the share "
      "of the tokens of prompts that came from the prefix cache, PREFIX the tokens that this cache "
      "holds, KV how much of the KV memory running sequences hold. Where the output is no "
      "terminal, or with --json, it is printed once.\n\n"
      "Examples:\n  millrace top\n  millrace top --once");
  auto flags = std::make_shared<Flags>();
  command->add_option("--interval", flags->interval_s, "time between two looks")
      ->type_name("SEC")
      ->check(CLI::Range(1, 3'600))
      ->capture_default_str();
  command->add_flag("--once", flags->once, "print it once");
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
