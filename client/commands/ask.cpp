// `millrace ask`: one prompt from the command line, or a chat in a terminal; the text is printed as
// it comes.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "client/commands/answer_stream.hpp"
#include "client/commands/command.hpp"
#include "client/commands/engine_flags.hpp"
#include "client/commands/input_paths.hpp"
#include "client/commands/text_input.hpp"
#include "client/lines/result_line.hpp"
#include "client/run/backend.hpp"
#include "client/run/temporary_place.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/limits.hpp"

namespace millrace::client {
namespace {

struct Flags {
  BrokerFlags broker;
  EngineChoice engine;
  std::string prompt, system;
  bool raw = false;
  std::optional<double> temperature, top_p, min_p;
  std::optional<std::uint64_t> top_k, max_tokens, seed;
  std::vector<std::string> stops;
};

// One line on a terminal that says what is waited for. Anything else that is printed removes it.
class WaitNote final : public RunObserver {
 public:
  explicit WaitNote(bool json) : json_(json), shows_(!json && ::isatty(STDERR_FILENO) != 0) {}
  ~WaitNote() override { clear(); }
  void show(const std::string& text) {
    clear();
    if (shows_) {
      std::fputs(text.c_str(), stderr);
      shown_ = true;
    }
  }
  void clear() {
    if (std::exchange(shown_, false)) {
      std::fputs("\r\x1b[K", stderr);
    }
  }
  void progress(const RunProgress&) override {}
  void note(const std::string&, const std::string&) override { clear(); }
  void trouble(const std::string&, const Error& error) override {
    clear();
    print_error(error, json_);
  }

 private:
  bool json_, shows_;
  bool shown_ = false;
};

struct Turn {
  std::string role, content;
};

class AskRun {
 public:
  AskRun(const Flags& flags, bool json)
      : flags_(flags), json_(json), terminal_(::isatty(STDOUT_FILENO) != 0), note_(json) {}

  Status run();

 private:
  Status take_prompt();
  Status converse(Session& session, EventHandler& beside);
  Status answer(Session& session, EventHandler& beside, const std::string& prompt);
  Status print(AnswerPart part, std::string_view text);
  Status finish(const JobResult& result);
  std::string job(const std::string& prompt) const;

  const Flags& flags_;
  bool json_, terminal_;
  const SystemClock clock_;
  WaitNote note_;
  std::optional<std::string> prompt_;  // none: a chat in a terminal
  std::vector<Turn> turns_;            // of this chat
  std::string answer_;                 // to the last prompt
  bool line_open_ = false, dim_ = false;
};

Status AskRun::run() {
  MILLRACE_TRY(take_prompt());
  if (flags_.engine.flags.model.empty()) {
    MILLRACE_ASSIGN(const auto session,
                    open_session(flags_.broker, clock_, json_, [this] { note_.clear(); }));
    EventHandler nothing;
    return converse(*session, nothing);
  }
  MILLRACE_TRY(flags_.engine.check());
  MILLRACE_ASSIGN(const TemporaryPlace place, TemporaryPlace::make("ask"));
  const auto env = posix_env();
  note_.show("loading the model ...");
  MILLRACE_ASSIGN(const auto backend, Backend::start(backend_options(flags_.engine, place.path()),
                                                     *env, clock_, note_));
  return converse(backend->session(), *backend);
}

// The prompt that was given, or all of standard input; none begins a chat in a terminal. A chat
// template makes an empty prompt into a few tokens, so that a model would answer nothing at length.
Status AskRun::take_prompt() {
  constexpr std::string_view blanks = " \t\r\n";
  if (!flags_.prompt.empty() && flags_.prompt != standard_stream) {
    prompt_ = flags_.prompt;
  } else if (::isatty(STDIN_FILENO) == 0) {
    prompt_ = std::string{std::istreambuf_iterator<char>(std::cin), {}};
    MILLRACE_TRY(check_text(*prompt_));
  }
  if (!prompt_ ||
      (flags_.raw ? !prompt_->empty() : prompt_->find_first_not_of(blanks) != std::string::npos)) {
    return {};
  }
  return fail(Code::empty_prompt, "the prompt is empty",
              "give a text on the command line or on standard input");
}

Status AskRun::converse(Session& session, EventHandler& beside) {
  if (prompt_) {
    return answer(session, beside, *prompt_);
  }
  note_.clear();
  std::fputs("An empty line or Ctrl-D ends the chat.\n", stderr);
  for (std::string prompt;;) {
    std::fputs("> ", stderr);
    if (!std::getline(std::cin, prompt) || prompt.empty()) {
      return {};
    }
    MILLRACE_TRY(check_text(prompt));
    MILLRACE_TRY(answer(session, beside, prompt));
    turns_.push_back({"user", prompt});
    turns_.push_back({"assistant", std::exchange(answer_, {})});
  }
}

std::string AskRun::job(const std::string& prompt) const {
  std::string text;
  JsonWriter out(text);
  out.begin_object().field("partials", !json_);
  const auto message = [&out](const Turn& turn) {
    out.begin_object().field("role", turn.role).field("content", turn.content).end_object();
  };
  if (flags_.raw) {
    out.field("prompt", prompt);
  } else {
    out.key("messages").begin_array();
    if (!flags_.system.empty()) {
      message({"system", flags_.system});
    }
    for (const Turn& turn : turns_) {
      message(turn);
    }
    message({"user", prompt});
    out.end_array();
  }
  const auto optional = [&out](const char* name, const auto& value) {
    if (value) out.field(name, *value);
  };
  optional("temperature", flags_.temperature);
  optional("top_p", flags_.top_p);
  optional("min_p", flags_.min_p);
  optional("top_k", flags_.top_k);
  optional("max_tokens", flags_.max_tokens);
  optional("seed", flags_.seed);
  if (!flags_.stops.empty()) {
    out.key("stop").begin_array();
    for (const std::string& stop : flags_.stops) {
      out.value(stop);
    }
    out.end_array();
  }
  out.end_object();
  return text;
}

Status AskRun::answer(Session& session, EventHandler& beside, const std::string& prompt) {
  AnswerStream stream(
      session, clock_, [this](AnswerPart part, std::string_view text) { return print(part, text); },
      [this](const std::string& why) { note_.show("waiting: " + printable_name(why)); });
  EventLoopOptions options = loop_options(flags_.broker);
  auto result = stream.run(job(prompt), options, beside);
  note_.clear();
  if (dim_ && terminal_) {
    std::fputs("\x1b[0m", stdout);
  }
  if (line_open_) {
    std::fputc('\n', stdout);
  }
  std::fflush(stdout);
  dim_ = line_open_ = false;
  return result ? finish(*result) : Status(fail(std::move(result).error()));
}

// Reasoning is shown to people only, and dimmed.
Status AskRun::print(AnswerPart part, std::string_view text) {
  const bool reasoning = part == AnswerPart::reasoning;
  answer_ += reasoning ? "" : text;
  if (json_ || (reasoning && !terminal_)) {
    return {};
  }
  note_.clear();
  std::string shown(text);
  if (terminal_) {
    shown.clear();
    for (std::size_t at = 0; at <= text.size();) {  // tabs stay
      const std::size_t tab = std::min(text.find('\t', at), text.size());
      shown += printable(std::string(text.substr(at, tab - at))) + (tab < text.size() ? "\t" : "");
      at = tab + 1;
    }
    if (reasoning != dim_) {
      shown = (reasoning ? "\x1b[2m" : "\x1b[0m\n") + shown;
    }
    dim_ = reasoning;
  }
  line_open_ = !text.ends_with('\n');
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size() ||
      std::fflush(stdout) != 0) {
    return fail(Code::io_error, "cannot write to standard output",
                "check the file or the pipe that it is redirected to");
  }
  return {};
}

Status AskRun::finish(const JobResult& result) {
  if (json_) {
    std::printf("%s\n", result_json(result).c_str());
    return {};
  }
  for (const std::string& warning : result.warnings) {
    print_notice("warning", warning, json_);
  }
  if (result.result->choices[0].finish_reason == FinishReason::length) {
    print_notice("length", "the text was cut at max_tokens; --max-tokens sets another limit",
                 json_);
  }
  return {};
}

int run(const CLI::App& command, const Flags& flags, bool json) {
  remember_interrupts("", json);
  if (const Status usable = check_engine_options(command, flags.engine); !usable) {
    return report_error(usable.error(), json);
  }
  if (flags.raw && !flags.system.empty()) {
    return report_error(
        {Code::usage, "--system is part of a chat, and --raw takes no chat template",
         "leave one of them out"},
        json);
  }
  const Status done = AskRun(flags, json).run();
  return done ? exit_all_done : report_error(done.error(), json);
}

// Every number of 64 bits is a seed. CLI11 makes the largest of -1, and of what is larger.
std::string check_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, wrong] = std::from_chars(text.data(), end, seed);
  if (parsed == end && wrong == std::errc()) return {};
  return "Value " + text + " not in range 0 to " +
         std::to_string(std::numeric_limits<std::uint64_t>::max());
}

void add_sampling_flags(CLI::App& command, Flags& flags) {
  command
      .add_option("--max-tokens", flags.max_tokens, "the longest text [all that fits; --raw: 16]")
      ->type_name("N")
      ->check(CLI::Range(1u, limits::job_tokens));
  command.add_option("--temperature", flags.temperature, "0 takes the likeliest token [1]")
      ->type_name("T");
  command.add_option("--top-p", flags.top_p, "draw from the likeliest tokens of this share")
      ->type_name("P");
  command.add_option("--top-k", flags.top_k, "draw from so many tokens")
      ->type_name("N")
      ->check(CLI::Range(0u, std::numeric_limits<std::uint32_t>::max()));
  command.add_option("--min-p", flags.min_p, "least share of the likeliest token's probability")
      ->type_name("P");
  command.add_option("--seed", flags.seed, "of the draws [from the prompt]")
      ->type_name("N")
      ->check(check_seed);
  command.add_option("--stop", flags.stops, "text that ends the answer; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
}

// Options that matter to many jobs only have no place here.
void leave_out_bulk_options(CLI::App& command) {
  for (const char* name :
       {"--devices", "--kv-protect", "--kv-center", "--model-name", "--max-batch", "--step-tokens",
        "--prefill-chunk", "--prefix-cache", "--prefix-disk", "--step-limit"}) {
    command.remove_option(command.get_option(name));
  }
}

}  // namespace

void add_ask_command(CLI::App& app, Invocation& invocation) {
  auto* command = app.add_subcommand(
      "ask",
      "Ask a model one thing, and read the answer as it comes.\n\n"
      "Without a prompt it is read from standard input, or in a terminal a chat begins. Without "
      "--model, the job goes to --broker.\n\n"
      "Examples:\n"
      "  millrace ask --model M.gguf 'Why is the sea salty?'\n"
      "  millrace ask --temperature 0 < prompt.txt   # by the broker of this machine");
  auto flags = std::make_shared<Flags>();
  command->add_option("prompt", flags->prompt, "the prompt [standard input]");
  command->add_option("--system", flags->system, "system message of the chat")->type_name("TEXT");
  command->add_flag("--raw", flags->raw, "go on with the prompt's text, without a chat");
  add_sampling_flags(*command, *flags);
  add_engine_flags(*command, flags->engine, false);
  leave_out_bulk_options(*command);
  add_broker_flags(*command, flags->broker);
  command->callback([&invocation, flags, command] {
    invocation.action = [&invocation, flags, command] {
      return run(*command, *flags, invocation.json);
    };
  });
}

}  // namespace millrace::client
