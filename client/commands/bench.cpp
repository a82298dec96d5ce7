// `millrace bench`: runs a load of a given shape, and tells how fast it went.
#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "client/commands/bench_load.hpp"
#include "client/commands/command.hpp"
#include "client/commands/engine_flags.hpp"
#include "client/commands/load_text.hpp"
#include "client/commands/progress_line.hpp"
#include "client/commands/run_console.hpp"
#include "client/run/backend.hpp"
#include "client/run/temporary_place.hpp"
#include "schemas/base/command_help.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::client {
namespace {

constexpr std::uint32_t leave_ms = 300;  // for the last questions to leave
constexpr std::uint32_t most_jobs = 100'000'000;

struct Flags {
  BrokerFlags broker;
  EngineChoice engine;
  LoadShape shape;
  bool keep = false;
};

std::string text(const char* format, double value) {
  std::array<char, 48> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

double rate(const LoadReport& report, std::uint64_t count) {
  return report.seconds > 0 ? static_cast<double>(count) / report.seconds : 0;
}

class BenchRun {
 public:
  BenchRun(const Flags& flags, bool json)
      : flags_(flags),
        json_(json),
        line_(json),
        load_(flags.shape, clock_, [this](std::uint64_t done) { tell(done); }) {}

  Status run();
  void print() const;
  bool all_well() const {
    const LoadReport& report = load_.report();
    return report.refused == 0 && report.totals.completed == report.totals.jobs();
  }

 private:
  Status run_embedded();
  Status run_on(Session& session, EventHandler& beside);
  void tell(std::uint64_t done);

  const Flags& flags_;
  bool json_;
  ProgressLine line_;
  const SystemClock clock_;
  BenchLoad load_;
};

void BenchRun::tell(std::uint64_t done) {
  line_.show([this, done] {
    return grouped(done) + " of " + grouped(flags_.shape.jobs) + " jobs, " +
           text("%.1f", rate(load_.report(), done)) + " jobs/s";
  });
}

// Removes the results, as far as the key may. The jobs of a load that was stopped are cancelled,
// and their stream is emptied: what ends after that, as those that engines hold do, stays in it
// until its age removes it.
Status BenchRun::run_on(Session& session, EventHandler& beside) {
  EventLoopOptions options = loop_options(flags_.broker);
  options.absence = Absence::is_failure;
  const Status done = load_.run(session, std::move(options), beside);
  line_.clear();
  if (!flags_.keep && session.ready()) {
    if (!done) {
      session.ask(Cancel{{}, load_.stream()});
    }
    session.ask(Remove{load_.stream(), ""});
    std::vector<Envelope> answers;
    std::vector<Bell> bells;
    static_cast<void>(session.poll(leave_ms, answers, bells));
  }
  return done;
}

Status BenchRun::run_embedded() {
  MILLRACE_TRY(flags_.engine.check());
  MILLRACE_ASSIGN(const TemporaryPlace place, TemporaryPlace::make("bench"));
  const auto env = posix_env();
  RunConsole console(json_, clock_, stderr);
  MILLRACE_ASSIGN(const auto backend, Backend::start(backend_options(flags_.engine, place.path()),
                                                     *env, clock_, console));
  console.clear_line();
  return run_on(backend->session(), *backend);
}

Status BenchRun::run() {
  if (!flags_.engine.flags.model.empty()) {
    return run_embedded();
  }
  MILLRACE_ASSIGN(const auto session,
                  open_session(flags_.broker, clock_, json_, [this] { line_.clear(); }));
  EventHandler nothing;
  return run_on(*session, nothing);
}

void print_json(const Flags& flags, const LoadReport& report) {
  std::string line;
  JsonWriter out(line);
  const LoadShape& shape = flags.shape;
  out.begin_object().key("shape").begin_object();
  out.field("jobs", shape.jobs).field("prompt_tokens", shape.prompt_tokens);
  out.field("answer_tokens", shape.answer_tokens).field("shared_tokens", shape.shared_tokens);
  out.field("variation", shape.variation).field("concurrency", shape.concurrency);
  out.field("rate", shape.rate).field("warmup", shape.warmup).field("seed", shape.seed);
  out.end_object().field("seconds", report.seconds).field("refused", report.refused);
  write_totals(out, report.totals, report.seconds);
  write_times(out, "token_gap_ms", report.token_gap);
  write_times(out, "result_ms", report.answered);
  if (report.first_error) {
    out.key("first_error").begin_object();
    out.field("code", code_name(report.first_error->code));
    out.field("message", report.first_error->message).end_object();
  }
  out.end_object();
  std::printf("%s\n", line.c_str());
}

void BenchRun::print() const {
  const LoadReport& report = load_.report();
  if (json_) {
    return print_json(flags_, report);
  }
  const ResultTotals& totals = report.totals;
  const std::uint64_t jobs = totals.jobs() + report.refused;
  const std::uint64_t missing = jobs - totals.completed;
  const std::string cached = share_text(totals.cached_tokens, totals.prompt_tokens);
  std::string out =
      grouped(jobs) + (jobs == 1 ? " job in " : " jobs in ") + text("%.2f s", report.seconds) +
      (missing == 0 ? "" : ", " + grouped(missing) + " of them refused or failed") +
      "\n  jobs/s              " + text("%.1f", rate(report, totals.jobs())) +
      "\n  prompt tokens/s     " + text("%.1f", rate(report, totals.prompt_tokens)) +
      (cached.empty() ? "" : " (" + cached + " from the prefix cache)") +
      "\n  answer tokens/s     " + text("%.1f", rate(report, totals.completion_tokens));
  for (const auto& [name, times] : {std::pair("\n  wait until begun    ", &totals.wait),
                                    std::pair("\n  to the first token  ", &totals.first_token),
                                    std::pair("\n  between two tokens  ", &report.token_gap),
                                    std::pair("\n  to the end          ", &totals.whole),
                                    std::pair("\n  to the result here  ", &report.answered)}) {
    out += name + percentiles_text(*times);
  }
  std::printf("%s\n", out.c_str());
  if (report.first_error) {
    print_error(*report.first_error, false);
  }
}

int run(const CLI::App& command, const Flags& flags, bool json) {
  remember_interrupts("", json);
  if (const Status usable = check_engine_options(command, flags.engine); !usable) {
    return report_error(usable.error(), json);
  }
  if (flags.shape.shared_tokens > flags.shape.prompt_tokens) {
    return report_error({Code::usage, "--shared-tokens is more than --prompt-tokens",
                         "the shared tokens are part of each prompt"},
                        json);
  }
  BenchRun bench(flags, json);
  if (const Status done = bench.run(); !done) {
    return report_error(done.error(), json);
  }
  bench.print();
  return bench.all_well() ? exit_all_done : exit_some_failed;
}

void add_shape_flags(CLI::App& command, LoadShape& shape) {
  const auto number = [&command](const char* name, auto& value, const std::string& about) {
    return command.add_option(name, value, about)->type_name("N")->capture_default_str();
  };
  number("-n,--jobs", shape.jobs, "jobs that are measured")->check(CLI::Range(1u, most_jobs));
  number("--prompt-tokens", shape.prompt_tokens, "tokens of each prompt")
      ->check(CLI::Range(1u, limits::job_tokens));
  number("--answer-tokens", shape.answer_tokens, "tokens of each answer")
      ->check(CLI::Range(1u, limits::job_tokens));
  number("--shared-tokens", shape.shared_tokens, "with which all prompts begin, of their tokens");
  number("--concurrency", shape.concurrency, "jobs under way at most; 0: all at once")
      ->check(CLI::Range(0u, most_jobs));
  number("--warmup", shape.warmup, "jobs that come first and are not measured")
      ->check(CLI::Range(0u, most_jobs));
  number("--seed", shape.seed, at_length("of the random tokens, lengths and times"))
      ->check(CLI::Range(std::uint64_t{0}, most_number));
  number("--vocabulary", shape.vocabulary, at_length("ids of prompts are random and below this"))
      ->check(CLI::Range(16u, 1'000'000u));
  command.add_option("--rate", shape.rate, "jobs a second, at random times; 0: without pauses")
      ->type_name("R")
      ->check(CLI::Range(0.0, 1e6))
      ->capture_default_str();
  command
      .add_option("--variation", shape.variation,
                  at_length("lengths vary by this share up and down"))
      ->type_name("V")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  command
      .add_option("--served-model", shape.model, at_length("the model that the jobs name; *: any"))
      ->type_name("NAME")
      ->capture_default_str();
}

}  // namespace

void add_bench_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "bench",
      "Run a load of a given shape, and tell how fast it went.\n\n"
      "Prompts are random tokens, and answers go on after an end of text, so that all have the "
      "asked lengths. With --model, an embedded engine runs them; without, the broker's engines. "
      "Latencies count from a job's submission.\n\n"
      "Examples:\n"
      "  millrace bench --model M.gguf -n 64 --prompt-tokens 512 --answer-tokens 128\n"
      "  millrace bench -n 1000 --rate 20 --shared-tokens 100   # by the broker of this machine");
  auto flags = std::make_shared<Flags>();
  add_shape_flags(*command, flags->shape);
  command->add_flag("--keep", flags->keep,
                    at_length("leave the results in their stream at the broker"));
  add_engine_flags(*command, flags->engine, false);
  for (const char* name :
       {"--kv-protect", "--kv-center", "--model-name", "--prefix-disk", "--step-limit"}) {
    command->remove_option(command->get_option(name));
  }
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags, command] {
    invocation.action = [&invocation, flags, command] {
      return run(*command, *flags, invocation.json);
    };
  });
}

}  // namespace millrace::client
