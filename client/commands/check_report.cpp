#include "client/commands/check_report.hpp"

#include <algorithm>
#include <cstdio>
#include <string>

#include "client/commands/command.hpp"
#include "client/commands/times.hpp"
#include "client/run/progress_text.hpp"
#include "schemas/base/json_writer.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace::client {
namespace {

void write_line(JsonWriter& out, const BadInput& bad) {
  out.begin_object().field("file", bad.place.file).field("line", bad.place.line);
  out.key("custom_id");
  bad.custom_id.empty() ? out.null() : out.value(bad.custom_id);
  out.field("code", code_name(bad.error.code));
  out.field("message", bad.error.message).field("hint", bad.error.hint).end_object();
}

void print_json(const CheckReport& report) {
  const InputReport& input = report.input;
  std::string line;
  JsonWriter out(line);
  out.begin_object().field("event", "checked").field("lines", input.lines);
  out.field("chats", input.chats).field("completions", input.completions);
  out.field("plain", input.plain).field("refused", input.bad).field("warned", input.warned);
  out.field("repeated_custom_ids", report.repeated_ids);
  if (report.context_tokens > 0) {
    out.field("context_tokens", report.context_tokens);
    out.field("prompt_tokens", report.prompt_tokens);
    out.field("longest_prompt_tokens", report.longest_prompt);
    out.field("most_completion_tokens", report.most_completion_tokens);
  }
  if (const auto seconds = estimated_seconds(report)) {
    out.field("estimated_seconds", *seconds);
  }
  out.key("errors").begin_array();
  for (const BadInput& bad : input.first_bad) {
    write_line(out, bad);
  }
  out.end_array().end_object();
  std::printf("%s\n", line.c_str());
}

std::string line_text(const BadInput& bad) {
  return printable("  " + bad.place_text +
                   (bad.custom_id.empty() ? "" : " (" + bad.custom_id + ")") + ": ");
}

void print_bad(const InputReport& input) {
  if (input.bad == 0) {
    std::printf("no line would be refused\n");
    return;
  }
  std::printf("%s would be refused:\n", count_text(input.bad, "line").c_str());
  for (const BadInput& bad : input.first_bad) {
    std::printf("%s%s\n", line_text(bad).c_str(), printable(bad.error.text()).c_str());
  }
  if (input.bad > input.first_bad.size()) {
    std::string by_code;
    for (const auto& [code, count] : input.bad_by_code) {
      by_code += (by_code.empty() ? "" : ", ") + std::to_string(count) + " " +
                 std::string(code_name(code));
    }
    std::printf("  and %llu more; all of them by code: %s\n",
                wide(input.bad - input.first_bad.size()), by_code.c_str());
  }
}

void print_estimate(const CheckReport& report) {
  const auto seconds = estimated_seconds(report);
  if (!seconds) {
    return;
  }
  const RunProgress& trial = *report.trial;
  std::printf("about %s in all: %llu lines took %.1f s, and the engine was ready after %.1f s\n",
              duration_text(*seconds).c_str(), wide(trial.done),
              trial.seconds - std::max(0.0, trial.ready_seconds), trial.ready_seconds);
}

}  // namespace

// The completions are taken to be as long as those of the trial. The end of a trial, when few jobs
// run, makes the estimate somewhat too long.
std::optional<double> estimated_seconds(const CheckReport& report) {
  if (!report.trial || report.trial->done <= report.trial->failed) {
    return std::nullopt;
  }
  const RunProgress& trial = *report.trial;
  const double start = std::max(0.0, trial.ready_seconds);
  const auto tried = static_cast<double>(trial.done - trial.failed);
  const double completion = static_cast<double>(trial.completion_tokens) / tried;
  const double all = static_cast<double>(report.prompt_tokens) +
                     completion * static_cast<double>(report.input.good());
  const double of_trial =
      static_cast<double>(trial.prompt_tokens) + static_cast<double>(trial.completion_tokens);
  return start + (trial.seconds - start) * std::max(1.0, all / std::max(1.0, of_trial));
}

void print_check_report(const CheckReport& report, bool json) {
  if (json) {
    print_json(report);
    return;
  }
  const InputReport& input = report.input;
  std::printf("%s: %s, %s, %s\n", count_text(input.lines, "line").c_str(),
              count_text(input.chats, "chat").c_str(),
              count_text(input.completions, "completion").c_str(),
              count_text(input.plain, "plain job").c_str());
  print_bad(input);
  if (const auto& first = input.first_warned) {
    std::printf("%llu %s; the first:\n%s%s\n", wide(input.warned),
                input.warned == 1 ? "line has a warning" : "lines have warnings",
                line_text(*first).c_str(), printable(first->error.message).c_str());
  }
  if (report.repeated_ids > 0) {
    std::printf(
        "%s the custom_id of an earlier line\n",
        (count_text(report.repeated_ids, "line") + (report.repeated_ids == 1 ? " has" : " have"))
            .c_str());
  }
  if (report.context_tokens > 0) {
    std::printf("%llu prompt tokens, at most %llu in one prompt of the %u that the context holds\n",
                wide(report.prompt_tokens), wide(report.longest_prompt), report.context_tokens);
    std::printf("at most %llu completion tokens, if no text ends before its max_tokens\n",
                wide(report.most_completion_tokens));
  }
  print_estimate(report);
}

}  // namespace millrace::client
