// `millrace check`: reads files of jobs and says what would be refused, how many tokens they have,
// and with a trial how long they take.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "client/commands/check_report.hpp"
#include "client/commands/command.hpp"
#include "client/commands/engine_flags.hpp"
#include "client/commands/input_paths.hpp"
#include "client/commands/run_console.hpp"
#include "client/run/temporary_place.hpp"
#include "engine/core/request_check.hpp"
#include "schemas/codec.hpp"
#include "schemas/openai/notes.hpp"

namespace millrace::client {
namespace {

struct Flags {
  EngineChoice engine;
  std::vector<std::string> inputs;
  bool strict = false;
  bool estimate = false;
};

// Keeps an even choice of the lines that it is given, the same at each call.
class Sample {
 public:
  explicit Sample(std::size_t most) : most_(most) {}
  void add(std::string_view line) {
    ++seen_;
    if (lines_.size() < most_) {
      lines_.emplace_back(line);
      return;
    }
    const std::uint64_t at = std::uniform_int_distribution<std::uint64_t>(0, seen_ - 1)(random_);
    if (at < most_) {
      lines_[at] = line;
    }
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::size_t most_;
  std::uint64_t seen_ = 0;
  std::vector<std::string> lines_;
  // NOLINTNEXTLINE(bugprone-random-generator-seed): the same lines give the same sample
  std::mt19937_64 random_{1};
};

class CheckRun {
 public:
  CheckRun(const Flags& flags, bool json)
      : flags_(flags), json_(json), sample_(flags.engine.flags.max_batch) {}

  Status run();
  const CheckReport& report() const { return report_; }

 private:
  Status check_job(const InputLine& line, const Job& job);
  Status try_some(Env& env);

  const Flags& flags_;
  bool json_;
  Sample sample_;
  std::unique_ptr<engine::RequestChecker> model_;
  CheckReport report_;
};

Status CheckRun::run() {
  const auto env = posix_env();
  if (!flags_.engine.flags.model.empty()) {
    MILLRACE_TRY(flags_.engine.check());
    MILLRACE_ASSIGN(model_, engine::RequestChecker::load(flags_.engine.flags.model));
    report_.context_tokens = model_->context_tokens();
  }
  MILLRACE_ASSIGN(const auto files, open_inputs(*env, flags_.inputs));
  InputCheck check;
  check.strict = flags_.strict;
  check.check_job = [this](const InputLine& line, const Job& job) { return check_job(line, job); };
  check.stop = interrupted;
  MILLRACE_ASSIGN(report_.input, check_input(*files, check));
  if (!report_.input.whole) {
    return fail(Code::interrupted, "interrupted", "");
  }
  return flags_.estimate && report_.input.good() > 0 ? try_some(*env) : Status();
}

Status CheckRun::check_job(const InputLine& line, const Job& job) {
  if (model_) {
    Job seeded = job;
    if (!seeded.request.sampling.seed) {
      seeded.request.sampling.seed = derived_seed(seeded);
    }
    MILLRACE_ASSIGN(const engine::CheckedRequest checked, model_->check(seeded.request));
    report_.prompt_tokens += checked.prompt_tokens;
    report_.most_completion_tokens += std::uint64_t{checked.n} * checked.max_tokens;
    report_.longest_prompt = std::max(report_.longest_prompt, checked.prompt_tokens);
  }
  report_.repeated_ids += job.metadata.contains(std::string(openai::duplicate_key)) ? 1 : 0;
  sample_.add(line.text);
  return {};
}

// Runs some of the lines as `millrace run` would.
Status CheckRun::try_some(Env& env) {
  MILLRACE_ASSIGN(const TemporaryPlace place, TemporaryPlace::make("check"));
  std::string text;
  for (const std::string& line : sample_.lines()) {
    text += line + "\n";
  }
  MILLRACE_TRY(write_file_atomically(env, place.path() + "/lines", text));
  RunOptions options = run_options(flags_.engine);
  options.inputs = {place.path() + "/lines"};
  options.output = standard_stream;
  options.print = [](std::string_view) { return Status(); };
  options.strict = flags_.strict;
  options.interrupted = interrupted;
  const SystemClock clock;
  RunConsole console(json_, clock, stderr);
  RunReport trial;
  MILLRACE_TRY(run_file(options, console, trial));
  report_.trial = trial.summary.progress;
  return {};
}

int run(const Flags& flags, bool json) {
  remember_interrupts("", json);
  if (flags.estimate && flags.engine.flags.model.empty()) {
    return report_error({Code::usage, "--estimate needs --model: some of the lines are run with it",
                         "name the model, or leave --estimate out"},
                        json);
  }
  CheckRun check(flags, json);
  if (const Status done = check.run(); !done) {
    return report_error(done.error(), json);
  }
  print_check_report(check.report(), json);
  return check.report().input.bad == 0 ? exit_all_done : exit_some_failed;
}

}  // namespace

void add_check_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "check",
      "Check files of jobs before they run.\n\n"
      "Tells which lines would be refused and why. With a model it also renders and tokenizes all "
      "prompts and compares them with the model's context.\n\n"
      "Examples:\n"
      "  millrace check jobs.jsonl\n"
      "  millrace check jobs.jsonl --model M.gguf --estimate");
  auto flags = std::make_shared<Flags>();
  command->add_option("file", flags->inputs, "jobs, one a line; - is standard input")->required();
  command->add_flag("--estimate", flags->estimate,
                    "run some of the lines, and tell how long all take");
  command->add_flag("--strict", flags->strict, "refuse unknown fields instead of warning");
  add_engine_flags(*command, flags->engine, false);
  command->callback([&invocation, flags] {
    invocation.action = [&invocation, flags] { return run(*flags, invocation.json); };
  });
}

}  // namespace millrace::client
