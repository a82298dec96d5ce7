#include "client/commands/result_totals.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "client/run/progress_text.hpp"

namespace millrace::client {
namespace {

constexpr std::array<std::pair<const char*, double>, 3> told_shares = {
    {{"p50", 0.5}, {"p90", 0.9}, {"p99", 0.99}}};

}  // namespace

void ResultTotals::add(const JobResult& result) {
  switch (result.state) {
    case JobState::completed:
      ++completed;
      break;
    case JobState::cancelled:
      ++cancelled;
      break;
    case JobState::expired:
      ++expired;
      break;
    default:
      ++failed;
      break;
  }
  const std::int64_t whole_us = std::max<std::int64_t>(0, result.ended_us - result.submitted_us);
  const auto took = static_cast<std::uint64_t>(whole_us);
  if (result.submitted_us > 0) {
    whole.add(took);
  }
  if (!result.result) {
    return;
  }
  const Usage& usage = result.result->usage;
  prompt_tokens += usage.prompt_tokens;
  cached_tokens += usage.cached_tokens;
  completion_tokens += usage.completion_tokens;
  const EngineTimes& times = result.result->times;
  if (times.total_us == 0) {
    return;  // the engine does not tell
  }
  const std::uint64_t before = took - std::min(took, times.total_us);  // the engine had it
  wait.add(before + times.queue_us);
  if (times.first_token_us > 0) {
    first_token.add(before + times.first_token_us);
  }
}

std::string latency_text(std::uint64_t us) {
  std::array<char, 32> text{};
  const double seconds = static_cast<double>(us) / 1e6;
  if (us < 1'000) {
    return std::to_string(us) + " us";
  }
  if (us < 1'000'000) {
    std::snprintf(text.data(), text.size(), us < 10'000 ? "%.1f ms" : "%.0f ms", seconds * 1e3);
    return text.data();
  }
  if (us < 60'000'000) {
    std::snprintf(text.data(), text.size(), us < 10'000'000 ? "%.2f s" : "%.1f s", seconds);
    return text.data();
  }
  return duration_text(seconds);
}

std::string percentiles_text(const Percentiles& times) {
  if (times.count() == 0) {
    return "none";
  }
  return "half in " + latency_text(times.at(0.5)) + ", 90 % in " + latency_text(times.at(0.9)) +
         ", 99 % in " + latency_text(times.at(0.99)) + ", all in " + latency_text(times.most());
}

void write_times(JsonWriter& out, const char* name, const Percentiles& times) {
  const auto ms = [](double us) { return us / 1e3; };
  if (times.count() == 0) {
    return;
  }
  out.key(name).begin_object().field("mean", ms(times.mean()));
  for (const auto& [share_name, share] : told_shares) {
    out.field(share_name, ms(static_cast<double>(times.at(share))));
  }
  out.field("most", ms(static_cast<double>(times.most()))).end_object();
}

void write_totals(JsonWriter& out, const ResultTotals& totals, double seconds) {
  const auto rate = [seconds](std::uint64_t count) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  };
  out.field("jobs", totals.jobs()).field("completed", totals.completed);
  out.field("failed", totals.failed).field("cancelled", totals.cancelled);
  out.field("expired", totals.expired).field("prompt_tokens", totals.prompt_tokens);
  out.field("cached_tokens", totals.cached_tokens);
  out.field("completion_tokens", totals.completion_tokens);
  out.field("jobs_per_second", rate(totals.jobs()));
  out.field("prompt_tokens_per_second", rate(totals.prompt_tokens));
  out.field("completion_tokens_per_second", rate(totals.completion_tokens));
  write_times(out, "wait_ms", totals.wait);
  write_times(out, "first_token_ms", totals.first_token);
  write_times(out, "whole_ms", totals.whole);
}

}  // namespace millrace::client
