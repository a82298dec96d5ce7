// `millrace score`: computes the logprobs of given texts. Each line of text is a job.
#include <CLI/CLI.hpp>
#include <cmath>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>

#include "client/commands/command.hpp"
#include "client/commands/engine_flags.hpp"
#include "client/commands/run_console.hpp"
#include "client/commands/text_input.hpp"
#include "client/lines/parse_line.hpp"
#include "client/link/result_wait.hpp"
#include "client/run/backend.hpp"
#include "client/run/temporary_place.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/random_id.hpp"
#include "schemas/openai/logprobs.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

struct Flags {
  BrokerFlags broker;
  EngineChoice engine;
  std::string input;
  bool ids = false;
  bool plain = false;
  std::uint32_t top = 0;
};

// Results arrive in any order and are printed in the order of the input.
class ScoreRun final : public JobSource {
 public:
  ScoreRun(const Flags& flags, TextInput input)
      : flags_(flags), input_(std::move(input)), stream_("score-" + random_id()) {}

  // `beside` is one more handler of the loop.
  Status run(Session& session, const Clock& clock, EventHandler& beside);
  bool all_well() const { return failed_ == 0; }

  Result<bool> feed(Submitter& submitter) override;
  Status on_answer(const Submission& submission) override;

 private:
  std::string job_id() const { return stream_ + "/" + std::to_string(input_.number()); }
  Result<Body> job_of(const std::string& text) const;
  void fail_line(std::uint64_t line, const Error& error);
  void take(std::uint64_t line, const JobResult& result);
  void print_ready();

  const Flags& flags_;
  TextInput input_;
  std::string stream_;
  std::optional<ResultWait> wait_;
  std::uint64_t printed_ = 0, failed_ = 0;
  std::map<std::uint64_t, std::string> ready_;  // by line
};

void ScoreRun::fail_line(std::uint64_t line, const Error& error) {
  ++failed_;
  std::string out;
  JsonWriter writer(out);
  writer.begin_object().field("line", line).key("error").begin_object();
  writer.field("code", code_name(error.code)).field("message", error.message);
  writer.field("hint", error.hint).end_object().end_object();
  ready_.emplace(line, std::move(out));
  print_ready();
}

// Returns the job that scores one line of the input.
Result<Body> ScoreRun::job_of(const std::string& text) const {
  std::string job_text;
  JsonWriter job(job_text);
  job.begin_object().field("task", "score").field("id", job_id());
  job.field("stream", stream_).field("batch", stream_);
  if (flags_.top > 0) {
    job.field("top_logprobs", flags_.top);
  }
  if (flags_.ids) {
    // Text that is no JSON becomes a string, which parse_line refuses because it is no array.
    job.key("tokens");
    if (json::accept(text)) {
      job.raw(text);
    } else {
      job.value(text);
    }
  } else {
    MILLRACE_TRY(check_text(text));
    job.field("prompt", text);
    if (flags_.plain) {
      job.field("parse_special", false);
    }
  }
  job.end_object();
  InputLine line;
  line.number = input_.number();
  line.text = job_text;
  ParsedLine parsed = parse_line(line, {});
  if (parsed.error) {
    return fail(*std::move(parsed.error));
  }
  return std::move(parsed.body);
}

Result<bool> ScoreRun::feed(Submitter& submitter) {
  std::string text;
  MILLRACE_ASSIGN(const bool more, input_.next(text));
  if (!more) {
    return false;
  }
  if (Result<Body> job = job_of(text)) {
    wait_->expect(job_id(), input_.number());
    submitter.add(*std::move(job), input_.number());
  } else {
    fail_line(input_.number(), job.error());
  }
  return true;
}

Status ScoreRun::on_answer(const Submission& submission) {
  if (submission.answer.error) {
    fail_line(submission.tag, *submission.answer.error);
  }
  return wait_->note_answer(submission);
}

void ScoreRun::take(std::uint64_t line, const JobResult& result) {
  if (result.error || !result.result || !result.result->prompt || !result.result->prompt_logprobs) {
    fail_line(line,
              result.error.value_or(Error{Code::engine_failed, "the engine sent no prompt logprobs",
                                          "check that engine and client have the same version"}));
    return;
  }
  const TokenLogprobs& logprobs = *result.result->prompt_logprobs;
  double sum = 0;
  std::uint64_t counted = 0;
  for (const float value : logprobs.token) {
    if (!std::isnan(value)) {
      sum += value;
      ++counted;
    }
  }
  std::string out;
  JsonWriter writer(out);
  writer.begin_object().field("line", line).key("token_ids");
  openai::write_ids(writer, *result.result->prompt);
  writer.key("logprobs").begin_array();
  for (const float value : logprobs.token) {
    writer.value(value);
  }
  writer.end_array();
  if (logprobs.top > 0) {
    writer.key("top");
    openai::write_logprob_arrays(writer, logprobs);
  }
  writer.field("sum", sum).field("scored_tokens", counted).key("perplexity");
  if (counted > 0) {
    writer.value(std::exp(-sum / static_cast<double>(counted)));
  } else {
    writer.null();
  }
  writer.field("model", result.result->effective.engine.model);
  writer.field("fingerprint", result.result->effective.engine.fingerprint).end_object();
  ready_.emplace(line, std::move(out));
  print_ready();
}

void ScoreRun::print_ready() {
  for (auto at = ready_.begin(); at != ready_.end() && at->first == printed_ + 1;
       at = ready_.erase(at)) {
    std::printf("%s\n", at->second.c_str());
    ++printed_;
  }
  std::fflush(stdout);
}

Status ScoreRun::run(Session& session, const Clock& clock, EventHandler& beside) {
  StreamReaderOptions stream;
  stream.stream = stream_;
  wait_.emplace(session, clock, stream, [this](std::uint64_t line, const JobResult& result) {
    take(line, result);
    return Status();
  });
  Submitter submitter(session, clock, *this);
  const Status done =
      EventLoop(session, clock, loop_options(flags_.broker))
          .run({&beside, &submitter, &*wait_}, [&] { return submitter.done() && wait_->done(); });
  const auto lost = wait_->lost();
  wait_.reset();  // the session may end before this object
  MILLRACE_TRY(done);
  for (const LostResult& one : lost) {
    fail_line(one.tag, {Code::trimmed, "the broker deleted the result before it was read",
                        "score the text again; the broker's --keep-results is too short"});
  }
  return {};
}

Status run_embedded(const Flags& flags, ScoreRun& score, bool as_json) {
  MILLRACE_TRY(flags.engine.check());
  MILLRACE_ASSIGN(const TemporaryPlace folder, TemporaryPlace::make("score"));
  const auto env = posix_env();
  const SystemClock clock;
  RunConsole console(as_json, clock, stdout);
  const BackendOptions options = backend_options(flags.engine, folder.path());
  MILLRACE_ASSIGN(auto backend, Backend::start(options, *env, clock, console));
  return score.run(backend->session(), clock, *backend);
}

int run(const CLI::App& command, const Flags& flags, bool as_json) {
  remember_interrupts("", as_json);
  if (const Status usable = check_engine_options(command, flags.engine); !usable) {
    return report_error(usable.error(), as_json);
  }
  auto input = TextInput::open(flags.input);
  if (!input) {
    return report_error(input.error(), as_json);
  }
  ScoreRun score(flags, *std::move(input));
  Status done;
  if (!flags.engine.flags.model.empty()) {
    done = run_embedded(flags, score, as_json);
  } else {
    const SystemClock clock;
    auto session = open_session(flags.broker, clock, as_json);
    EventHandler nothing;
    done = session ? score.run(**session, clock, nothing) : Status(fail(session.error()));
  }
  if (!done) {
    return report_error(done.error(), as_json);
  }
  return score.all_well() ? exit_all_done : exit_some_failed;
}

}  // namespace

void add_score_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "score",
      "Compute the logprobs of given texts.\n\n"
      "Each line gives one JSON object. Without --model, the jobs go to --broker.\n\n"
      "Examples:\n"
      "  echo 'The sea is blue.' | millrace score --model M.gguf\n"
      "  echo '[504, 3, 88]' | millrace score --ids   # by the broker of this machine");
  auto flags = std::make_shared<Flags>();
  command->add_option("input", flags->input, "file of lines [standard input]");
  auto* ids = command->add_flag("--ids", flags->ids, "lines are JSON arrays of token ids");
  command
      ->add_flag("--no-parse-special", flags->plain,
                 "treat control tokens that a line spells as text")
      ->excludes(ids);
  command->add_option("--top", flags->top, "also print logprobs of the N likeliest tokens")
      ->check(CLI::Range(0U, limits::top_logprobs));
  add_engine_flags(*command, flags->engine, false);
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags, command] {
    invocation.action = [&invocation, flags, command] {
      return run(*command, *flags, invocation.json);
    };
  });
}

}  // namespace millrace::client
