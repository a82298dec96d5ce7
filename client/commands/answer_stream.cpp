#include "client/commands/answer_stream.hpp"

#include <utility>
#include <variant>

#include "client/lines/parse_line.hpp"
#include "client/link/entry_result.hpp"
#include "schemas/base/random_id.hpp"

namespace millrace::client {
namespace {

constexpr const char* stream_name = "ask";
constexpr std::uint32_t cancel_ms = 200;  // for the question to leave before the process ends

}  // namespace

Result<JobResult> AnswerStream::run(const std::string& line, const EventLoopOptions& options,
                                    EventHandler& beside) {
  EventLoop loop(session_, clock_, options);
  MILLRACE_TRY(submit(loop, line));
  if (const Status done = wait(loop, beside); !done) {
    if (done.error().code == Code::interrupted) {
      cancel();
    }
    return fail(done.error());
  }
  if (result_->error) {
    return fail(*result_->error);
  }
  MILLRACE_TRY(pass_rest());
  return *std::move(result_);
}

// The stream is watched before the job is submitted, so that no partial is missed.
Status AnswerStream::submit(EventLoop& loop, const std::string& line) {
  InputLine input;
  input.number = 1;
  input.text = line;
  LineOptions options;
  options.id = "ask-" + random_id();
  options.stream = stream_name;
  ParsedLine parsed = parse_line(input, options);
  if (parsed.error) {
    return fail(*std::move(parsed.error));
  }
  job_ = parsed.id;
  session_.watch(stream_name);
  const auto before =
      loop.request_as<StatusAnswer>(StatusRequest{.job = {}, .batch = {}, .stream = stream_name});
  if (!before && before.error().code != Code::not_found) {
    return fail(before.error());
  }
  from_ = before ? before->high + 1 : 1;
  MILLRACE_ASSIGN(const Submitted submitted,
                  loop.request_as<Submitted>(Submit{{std::move(parsed.body)}}));
  const SubmitAnswer& answer = submitted.answers.at(0);
  if (answer.error) {
    return fail(*answer.error);
  }
  if (!answer.waits.empty()) {
    on_wait_(answer.waits);
  }
  return {};
}

Status AnswerStream::wait(EventLoop& loop, EventHandler& beside) {
  StreamReaderOptions options;
  options.stream = stream_name;
  options.from = from_;
  StreamReader reader(session_, clock_, options, *this);
  return loop.run({&beside, this, &reader}, [this] { return result_.has_value(); });
}

void AnswerStream::cancel() {
  session_.ask(Cancel{{job_}, ""});
  std::vector<Envelope> answers;
  std::vector<Bell> bells;
  static_cast<void>(session_.poll(cancel_ms, answers, bells));
}

Result<bool> AnswerStream::take(Envelope& answer) {
  const auto* partials = std::get_if<Partials>(&answer.message);
  if (partials == nullptr) {
    return false;
  }
  for (const PartialEntry& entry : partials->entries) {
    if (entry.job != job_ || broken_ || result_) {
      continue;
    }
    const Partial& partial = entry.partial;
    // Another attempt begins anew, and gives the same text as far as it goes.
    broken_ = partial.first_token != tokens_ || (attempt_ != 0 && entry.attempt != attempt_);
    if (broken_) {
      continue;
    }
    attempt_ = entry.attempt;
    tokens_ += static_cast<std::uint32_t>(partial.tokens.size());
    MILLRACE_TRY(pass(AnswerPart::reasoning, reasoning_, partial.reasoning));
    MILLRACE_TRY(pass(AnswerPart::text, text_, partial.text));
  }
  return true;
}

Status AnswerStream::on_entries(const std::vector<Entry>& entries) {
  for (const Entry& entry : entries) {
    if (entry.job == job_) {
      result_ = result_of(entry, stream_name);
    }
  }
  return {};
}

Status AnswerStream::pass(AnswerPart part, std::string& printed, std::string_view text) {
  printed += text;
  return text.empty() ? Status() : on_text_(part, text);
}

Status AnswerStream::pass_rest() {
  if (!result_->result || result_->result->choices.empty()) {
    return fail(Code::engine_failed, "the engine sent no text",
                "check that engine and broker have the same version");
  }
  const Choice& choice = result_->result->choices[0];
  const auto rest = [](const std::string& whole, const std::string& printed) {
    return whole.starts_with(printed) ? whole.substr(printed.size()) : "\n" + whole;
  };
  MILLRACE_TRY(
      pass(AnswerPart::reasoning, reasoning_, rest(choice.reasoning.value_or(""), reasoning_)));
  return pass(AnswerPart::text, text_, rest(choice.text, text_));
}

}  // namespace millrace::client
