#include "client/commands/run_console.hpp"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>

#include "client/commands/command.hpp"
#include "client/lines/json_writer.hpp"

namespace millrace::client {
namespace {

constexpr std::int64_t terminal_pause_us = 200'000;
constexpr std::int64_t line_pause_us = 5'000'000;

template <class... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 160> buffer{};
  const int length = std::snprintf(buffer.data(), buffer.size(), format, values...);
  return {buffer.data(), static_cast<std::size_t>(length)};
}

double tokens_per_second(const RunProgress& progress) {
  const auto tokens = static_cast<double>(progress.prompt_tokens + progress.completion_tokens);
  return progress.seconds > 0 ? tokens / progress.seconds : 0;
}

double seconds_left(const RunProgress& progress) {
  const std::uint64_t now = progress.done - progress.before;
  return now == 0 ? -1
                  : progress.seconds * static_cast<double>(progress.total - progress.done) /
                        static_cast<double>(now);
}

void print(const std::string& line) {
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fputc('\n', stdout);
  std::fflush(stdout);
}

void write_progress(JsonWriter& out, const RunProgress& progress) {
  out.field("total", progress.total).field("done", progress.done);
  out.field("done_before", progress.before).field("failed", progress.failed);
  out.field("running", progress.running).field("prompt_tokens", progress.prompt_tokens);
  out.field("completion_tokens", progress.completion_tokens).field("seconds", progress.seconds);
  out.field("tokens_per_second", tokens_per_second(progress));
  out.field("engine_starts", progress.engine_starts);
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<unsigned long long>(std::llround(seconds));
  if (whole < 60) {
    return text("%llu s", whole);
  }
  if (whole < 3600) {
    return text("%llu min %llu s", whole / 60, whole % 60);
  }
  return text("%llu h %llu min", whole / 3600, whole % 3600 / 60);
}

std::string progress_text(const RunProgress& progress) {
  const double percent = progress.total == 0 ? 100
                                             : 100 * static_cast<double>(progress.done) /
                                                   static_cast<double>(progress.total);
  std::string line =
      text("%llu/%llu done (%.1f %%)", static_cast<unsigned long long>(progress.done),
           static_cast<unsigned long long>(progress.total), percent);
  line += text(", %llu failed", static_cast<unsigned long long>(progress.failed));
  if (!progress.engine_ready) {
    return line + (progress.engine_starts > 1
                       ? ", the engine is started again"
                       : ", the engine starts (its first start takes longer)");
  }
  line += text(", %u running", progress.running);
  line += text(", %.1f tok/s", tokens_per_second(progress));
  if (const double left = seconds_left(progress); left >= 0 && progress.done < progress.total) {
    line += ", " + duration_text(left) + " left";
  }
  return line;
}

RunConsole::RunConsole(bool json, const Clock& clock)
    : json_(json),
      terminal_(::isatty(STDERR_FILENO) != 0),
      clock_(clock),
      shown_us_(clock.monotonic_us()) {}

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
    out.end_object();
    print(line);
  } else if (redraw) {
    std::fprintf(stderr, "\r\x1b[K%s", progress_text(progress).c_str());
    std::fflush(stderr);
    line_shown_ = true;
  } else {
    std::fprintf(stderr, "%s\n", progress_text(progress).c_str());
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
  std::fprintf(stderr, "millrace: %s\n", message.c_str());
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

void RunConsole::summary(const RunReport& report, const std::string& output) {
  clear_line();
  const RunSummary& summary = report.summary;
  const RunProgress& progress = summary.progress;
  if (json_) {
    std::string line;
    JsonWriter out(line);
    out.begin_object().field("event", "summary").field("nothing_to_do", report.nothing_to_do);
    write_progress(out, progress);
    out.field("output", output).key("errors").begin_array();
    for (const FailedLine& failed : summary.failures) {
      out.begin_object().field("line", failed.line).field("custom_id", failed.custom_id);
      out.field("code", code_name(failed.error.code)).field("message", failed.error.message);
      out.end_object();
    }
    out.end_array().end_object();
    print(line);
    return;
  }
  const auto wide = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  if (report.nothing_to_do) {
    print(text("Nothing to do: all %llu lines are done (%llu failed).", wide(progress.total),
               wide(progress.failed)));
    print("Results: " + output);
    return;
  }
  print(text("%llu of %llu jobs done, %llu failed", wide(progress.done), wide(progress.total),
             wide(progress.failed)) +
        (progress.before > 0 ? text(" (%llu were done before)", wide(progress.before)) : ""));
  print(text("%llu prompt and %llu completion tokens in %.1f s, %.1f tokens/s",
             wide(progress.prompt_tokens), wide(progress.completion_tokens), progress.seconds,
             tokens_per_second(progress)));
  for (const FailedLine& failed : summary.failures) {
    const std::string name = failed.custom_id.empty() ? "" : " (" + failed.custom_id + ")";
    print(printable(text("  line %llu", wide(failed.line)) + name + ": " + failed.error.text()));
  }
  if (const auto rest = summary.failed_now - summary.failures.size(); rest > 0) {
    print(text("  and %llu more: the lines of the output whose \"error\" is not null", wide(rest)));
  }
  print("Results: " + output);
}

}  // namespace millrace::client
