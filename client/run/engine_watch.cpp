#include "client/run/engine_watch.hpp"

#include <iterator>
#include <utility>

namespace millrace::client {
namespace {

constexpr std::uint32_t hurry_ms = 100;  // while an engine is expected to join
constexpr double rate_weight = 0.3;      // of the newest rate, which is counted over one second
constexpr std::int64_t silence_patience_us = 10'000'000;

}  // namespace

EngineWatch::EngineWatch(RunFolder& folder, Session& session, const Clock& clock,
                         EngineWatchHooks hooks, std::uint32_t status_ms, RunProgress& progress)
    : folder_(folder),
      session_(session),
      clock_(clock),
      hooks_(std::move(hooks)),
      status_ms_(status_ms),
      progress_(progress) {}

Status EngineWatch::tick() {
  const std::int64_t now = clock_.monotonic_us();
  const std::int64_t pause_us = (joined() ? status_ms_ : hurry_ms) * us_per_ms;
  if (question_ == 0 && now - asked_us_ > pause_us) {
    asked_us_ = now;
    question_ = session_.ask(StatusRequest{});
  }
  return {};
}

Result<bool> EngineWatch::take(Envelope& answer) {
  if (question_ == 0 || answer.id != question_) {
    return false;
  }
  question_ = 0;
  if (const auto* status = std::get_if<StatusAnswer>(&answer.message)) {
    MILLRACE_TRY(take_status(*status));
  }
  return true;
}

Status EngineWatch::take_status(const StatusAnswer& status) {
  progress_.running = status.counts.leased;
  double rate = 0;
  for (const EngineInfo& engine : status.engines) rate += engine.tokens_per_second;
  double& shown = progress_.tokens_per_second_now;
  // A second without a token does not mean that the engine has stopped.
  const bool goes_on = shown > 0 && !status.engines.empty();
  shown = goes_on ? shown + rate_weight * (rate - shown) : rate;
  for (const EngineInfo& info : status.engines) {
    const EngineFacts& engine = info.engine.facts;
    MILLRACE_TRY(folder_.meet_engine(engine.fingerprint, {engine.kv_policy, engine.kv}));
  }
  if (!status.engines.empty()) starts_met_ = hooks_.engine_starts();
  note_absence(status.engines);
  return {};
}

// The broker drops an engine that is silent, for example a stopped process. A live engine comes
// back within seconds.
void EngineWatch::note_absence(const std::vector<EngineInfo>& present) {
  const std::int64_t now = clock_.monotonic_us();
  for (auto& [name, absent_us] : seen_) {
    if (absent_us == 0) absent_us = now;
  }
  for (const EngineInfo& engine : present) seen_[engine.name] = 0;
  for (auto at = seen_.begin(); at != seen_.end();) {
    const auto [name, absent_us] = *at;
    const bool is_lost = absent_us != 0 && now - absent_us > silence_patience_us;
    at = is_lost ? seen_.erase(at) : std::next(at);
    if (is_lost) hooks_.engine_silent(name);
  }
}

}  // namespace millrace::client
