#include "client/run/progress_text.hpp"

#include <array>
#include <cmath>
#include <cstdio>
#include <vector>

namespace millrace::client {
namespace {

using Wide = unsigned long long;

template <class... Values>
std::string text(const char* format, Values... values) {
  std::array<char, 96> buffer{};
  std::snprintf(buffer.data(), buffer.size(), format, values...);
  return buffer.data();
}

struct Part {
  std::string text;
  int weight = 0;  // the lightest part is left out first
};

std::vector<Part> parts_of(const RunProgress& progress) {
  const double percent = progress.total == 0 ? 100
                                             : 100 * static_cast<double>(progress.done) /
                                                   static_cast<double>(progress.total);
  std::vector<Part> parts;
  parts.push_back(
      {text("%llu/%llu done (%.1f %%)", Wide{progress.done}, Wide{progress.total}, percent), 9});
  parts.push_back({text(", %llu failed", Wide{progress.failed}), progress.failed > 0 ? 3 : 1});
  if (!progress.engine_ready && !progress.own_engine) {
    parts.push_back({", no engine is with the broker", 5});
    return parts;
  }
  if (!progress.engine_ready) {
    const bool again = progress.engine_starts > 1;
    parts.push_back({again ? ", the engine is started again" : ", the engine loads the model", 5});
    parts.push_back({", " + duration_text(progress.seconds), 2});
    parts.push_back({again ? "" : " (its first start takes longer)", 0});
    return parts;
  }
  parts.push_back({text(", %llu with the engine", Wide{progress.running}), 2});
  const double now = progress.tokens_per_second_now;
  const double rate = now > 0 ? now : tokens_per_second(progress);
  const bool none_ended = progress.done <= progress.done_at_ready;
  if (none_ended && progress.running > 0) {
    parts.push_back({rate > 0 ? ", no result yet" : ", reading prompts", 3});
  }
  if (rate > 0) {
    parts.push_back({text(", %.1f tok/s", rate), 4});
  }
  if (progress.cached_tokens > 0) {
    const double share = 100 * static_cast<double>(progress.cached_tokens) /
                         static_cast<double>(progress.prompt_tokens);
    parts.push_back({text(", %.0f %% of prompts cached", share), 1});
  }
  if (const double left = seconds_left(progress); left >= 0) {
    parts.push_back({", " + duration_text(left) + " left", 5});
  }
  return parts;
}

}  // namespace

std::string progress_text(const RunProgress& progress, std::size_t columns) {
  const std::vector<Part> parts = parts_of(progress);
  std::string line;
  for (int lightest = 0; lightest <= 9; ++lightest) {
    line.clear();
    for (const Part& part : parts) {
      line += part.weight >= lightest ? part.text : "";
    }
    if (line.size() <= columns) {
      return line;
    }
  }
  return line.substr(0, columns);
}

// Counts running jobs as half done. Otherwise a run of a few hundred jobs would seem to take twice
// as long as it does. Between two ends of jobs the estimate counts down, but what has not ended for
// a while is taken to go on for as long.
double seconds_left(const RunProgress& progress) {
  if (progress.ready_seconds < 0 || progress.done >= progress.total ||
      progress.done <= progress.done_at_ready) {
    return -1;
  }
  const auto ended = static_cast<double>(progress.done - progress.done_at_ready);
  const double half_done = static_cast<double>(progress.running) / 2;
  if (ended < half_done) {
    return -1;
  }
  const double open = static_cast<double>(progress.total - progress.done) - half_done;
  const double since = progress.seconds - progress.ended_seconds;
  const double took = progress.ended_seconds - progress.ready_seconds;
  return std::fmax(took * open / (ended + half_done) - since, since);
}

double tokens_per_second(const RunProgress& progress) {
  const auto tokens = static_cast<double>(progress.prompt_tokens + progress.completion_tokens);
  return progress.seconds > 0 ? tokens / progress.seconds : 0;
}

std::string duration_text(double seconds) {
  const auto whole = static_cast<Wide>(std::llround(seconds));
  if (whole < 60) {
    return text("%llu s", whole);
  }
  if (whole < 3600) {
    return text("%llu min %llu s", whole / 60, whole % 60);
  }
  return text("%llu h %llu min", whole / 3600, whole % 3600 / 60);
}

}  // namespace millrace::client
