#include "client/commands/run_console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <system_error>

#include "client/commands/command.hpp"
#include "client/run/progress_text.hpp"
#include "schemas/base/json_writer.hpp"

namespace millrace::client {
namespace {

constexpr std::int64_t terminal_pause_us = 200'000;
constexpr std::int64_t line_pause_us = 5'000'000;
constexpr std::size_t usual_columns = 80;

std::string where_failed_lines_are(const RunOptions& options) {
  return options.errors.empty() ? ": the lines of the output whose \"error\" is not null"
                                : ": in " + printable_name(options.errors);
}

template <class... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 160> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), format, values...);
  return {buffer.data(), std::min(static_cast<std::size_t>(length), buffer.size() - 1)};
}

std::size_t terminal_columns() {
  winsize size{};
  const bool known = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
  return known ? size.ws_col : usual_columns;
}

// As in the lines of the output: null where a line has none.
void write_custom_id(JsonWriter& out, const std::string& custom_id) {
  out.key("custom_id");
  custom_id.empty() ? out.null() : out.value(custom_id);
}

void write_warned(JsonWriter& out, const RunSummary& summary) {
  out.field("warned", summary.warned).key("first_warning");
  if (const auto& first = summary.first_warned; first) {
    out.begin_object().field("file", first->place.file).field("line", first->place.line);
    write_custom_id(out, first->custom_id);
    out.field("message", first->warning).end_object();
  } else {
    out.null();
  }
}

std::string line_name(const std::string& place, const std::string& custom_id) {
  return place + (custom_id.empty() ? "" : " (" + custom_id + ")");
}

void write_progress(JsonWriter& out, const RunProgress& progress) {
  out.field("total", progress.total).field("done", progress.done);
  out.field("done_before", progress.before).field("failed", progress.failed);
  out.field("running", progress.running);
  out.field("prompt_tokens", progress.prompt_tokens);
  out.field("cached_tokens", progress.cached_tokens);
  out.field("completion_tokens", progress.completion_tokens).field("seconds", progress.seconds);
  out.field("tokens_per_second", tokens_per_second(progress));
  out.field("engine_starts", progress.engine_starts);
}

}  // namespace

RunConsole::RunConsole(bool json, const Clock& clock, std::FILE* out)
    : json_(json),
      terminal_(::isatty(STDERR_FILENO) != 0),
      clock_(clock),
      out_(out),
      shown_us_(clock.monotonic_us()) {}

void RunConsole::print(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), out_);
  std::fputc('\n', out_);
  std::fflush(out_);
}

Status RunConsole::print_results(std::string_view lines) {
  clear_line();
  const bool written = std::fwrite(lines.data(), 1, lines.size(), stdout) == lines.size();
  if (!written || std::fflush(stdout) != 0) {
    return fail(Code::io_error,
                "cannot write to standard output: " + std::generic_category().message(errno),
                "check the pipe that it goes to, or name a file for --output");
  }
  return {};
}

RunConsole::~RunConsole() {
  clear_line();
}

void RunConsole::clear_line() {
  if (line_shown_) {
    std::fputs("\r\x1b[K", stderr);
    line_shown_ = false;
  }
}

void RunConsole::progress(const RunProgress& progress) {
  const std::int64_t now = clock_.monotonic_us();
  const bool redraw = terminal_ && !json_;
  if (now - shown_us_ < (redraw ? terminal_pause_us : line_pause_us)) {
    return;
  }
  shown_us_ = now;
  if (json_) {
    std::string line;
    JsonWriter out(line);
    out.begin_object().field("event", "progress");
    write_progress(out, progress);
    out.field("tokens_per_second_now", progress.tokens_per_second_now).key("seconds_left");
    const double left = seconds_left(progress);
    left < 0 ? out.null() : out.value(left);
    out.end_object();
    print(line);
  } else if (redraw) {
    // One column stays free, because a full line would wrap.
    std::fprintf(stderr, "\r\x1b[K%s", progress_text(progress, terminal_columns() - 1).c_str());
    std::fflush(stderr);
    line_shown_ = true;
  } else {
    std::fprintf(stderr, "%s\n", progress_text(progress, std::string::npos).c_str());
  }
}

void RunConsole::note(const std::string& event, const std::string& message) {
  if (json_) {
    std::string line;
    JsonWriter(line).begin_object().field("event", event).field("message", message).end_object();
    print(line);
    return;
  }
  clear_line();
  std::fprintf(stderr, "millrace: %s\n", printable(message).c_str());
}

void RunConsole::places(const std::string& event, const std::string& message,
                        const std::vector<Place>& places) {
  if (json_) {
    std::string line;
    JsonWriter out(line);
    out.begin_object().field("event", event).field("message", message);
    for (const Place& place : places) out.field(place.name, place.address);
    out.end_object();
    print(line);
    return;
  }
  note(event, message);
  std::size_t columns = 0;
  for (const Place& place : places) columns = std::max(columns, place.label.size());
  for (const Place& place : places) {
    std::fprintf(stderr, "  %-*s  %s\n", static_cast<int>(columns), place.label.c_str(),
                 printable(place.address).c_str());
  }
}

void RunConsole::trouble(const std::string& event, const Error& error) {
  if (json_) {
    std::string line;
    JsonWriter out(line);
    out.begin_object().field("event", event).field("code", code_name(error.code));
    out.field("message", error.message).field("hint", error.hint).end_object();
    print(line);
    return;
  }
  clear_line();
  std::fprintf(stderr, "millrace: %s\n", printable(error.text()).c_str());
}

void RunConsole::summary_json(const RunReport& report, const RunOptions& options) {
  const RunSummary& summary = report.summary;
  std::string line;
  JsonWriter out(line);
  out.begin_object().field("event", "summary").field("nothing_to_do", report.nothing_to_do);
  write_progress(out, summary.progress);
  out.field("output", options.output).field("errors_file", options.errors);
  out.key("errors").begin_array();
  for (const FailedLine& failed : summary.failures) {
    out.begin_object().field("file", failed.place.file).field("line", failed.place.line);
    write_custom_id(out, failed.custom_id);
    out.field("code", code_name(failed.error.code)).field("message", failed.error.message);
    out.end_object();
  }
  out.end_array();
  write_warned(out, summary);
  out.end_object();
  print(line);
}

void RunConsole::summary(const RunReport& report, const RunOptions& options) {
  clear_line();
  if (json_) {
    summary_json(report, options);
    return;
  }
  const RunSummary& summary = report.summary;
  const RunProgress& progress = summary.progress;
  const std::string place = options.output == standard_stream ? "" : "Results: " + options.output;
  const auto wide = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  if (report.nothing_to_do) {
    print(text("Nothing to do: all %llu lines are done (%llu failed", wide(progress.total),
               wide(progress.failed)) +
          (progress.failed > 0 ? where_failed_lines_are(options) : "") + ").");
    print(place);
    return;
  }
  print(text("%llu of %llu jobs done, %llu failed", wide(progress.done), wide(progress.total),
             wide(progress.failed)) +
        (progress.before > 0 ? text(" (%llu were done before)", wide(progress.before)) : ""));
  print(text("%llu prompt and %llu completion tokens in %.1f s, %.1f tokens/s",
             wide(progress.prompt_tokens), wide(progress.completion_tokens), progress.seconds,
             tokens_per_second(progress)) +
        (progress.cached_tokens > 0
             ? text("; %llu of the prompt tokens were cached", wide(progress.cached_tokens))
             : "") +
        (progress.ready_seconds >= 0
             ? text("; the engine was ready after %.1f s", progress.ready_seconds)
             : ""));
  for (const FailedLine& failed : summary.failures) {
    print(printable("  " + line_name(failed.place_text, failed.custom_id) + ": " +
                    failed.error.text()));
  }
  if (const auto rest = progress.failed - summary.failures.size(); rest > 0) {
    print(text(summary.failures.empty() ? "  %llu failed before" : "  and %llu more", wide(rest)) +
          where_failed_lines_are(options));
  }
  if (const auto& first = summary.first_warned; first) {
    print(text("%llu %s (see \"warnings\" of their results); the first:", wide(summary.warned),
               summary.warned == 1 ? "line has a warning" : "lines have warnings"));
    print(printable("  " + line_name(first->place_text, first->custom_id) + ": " + first->warning));
  }
  if (!options.errors.empty() && progress.failed > 0) {
    print("Errors: " + options.errors);
  }
  if (!place.empty()) {
    print(place);
  }
}

}  // namespace millrace::client
