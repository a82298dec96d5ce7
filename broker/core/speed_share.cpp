#include "broker/core/speed_share.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::broker {
namespace {

// Seconds that a single job takes.
double least_seconds(const EngineLoad& engine, double tokens_per_job) {
  return std::max(engine.rows, 1u) * tokens_per_job / engine.tokens_per_second;
}

}  // namespace

std::uint32_t jobs_by_speed(const EngineLoad& engine, std::span<const EngineLoad> others,
                            std::uint64_t queued, double tokens_per_job, std::uint32_t most) {
  double speed = 0, held = 0, asking = engine.tokens_per_second;
  double least = std::numeric_limits<double>::infinity();
  for (const EngineLoad& other : others) {
    speed += other.tokens_per_second;
    held += other.held_tokens;
    least = std::min(least, least_seconds(other, tokens_per_job));
    if (other.asks) asking += other.tokens_per_second;
  }
  const auto jobs = static_cast<double>(queued);
  const double part =
      std::min(std::ceil(jobs * engine.tokens_per_second / asking), static_cast<double>(most));
  // The others take whole jobs, so the last of these may be one behind.
  held += static_cast<double>(others.size() - 1) * tokens_per_job;
  constexpr double rounding = 1 + 1e-9;
  const double own_least = least_seconds(engine, tokens_per_job);
  std::uint32_t take = 0;
  for (double next = 1; next <= part; ++next) {
    const double own = (engine.held_tokens + next * tokens_per_job) / engine.tokens_per_second;
    const double theirs = (held + (jobs - next + 1) * tokens_per_job) / speed;
    if (std::max(own, own_least) > std::max(theirs, least) * rounding) break;
    ++take;
  }
  return take;
}

}  // namespace millrace::broker
