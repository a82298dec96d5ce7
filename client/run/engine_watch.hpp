#pragma once
// What a run hears of its engine from the broker: once a second, and more often until an engine
// that was started has joined. The first engine's fingerprint is written down in the run's folder,
// a later one's must be equal. An engine that the broker has dropped and that does not come back is
// reported as silent.
// Errors: settings_changed and those of RunFolder::meet_engine. Thread safety: one thread.
#include <cstdint>
#include <functional>

#include "client/link/event_loop.hpp"
#include "client/run/observer.hpp"
#include "client/run/run_folder.hpp"

namespace millrace::client {

struct EngineWatchHooks {
  std::function<std::uint32_t()> engine_starts;
  std::function<void()> engine_silent;
};

class EngineWatch final : public EventHandler {
 public:
  // `progress` gets what the engine has under way and how fast it is.
  EngineWatch(RunFolder& folder, Session& session, const Clock& clock, EngineWatchHooks hooks,
              std::uint32_t status_ms, RunProgress& progress);

  Status tick() override;
  Result<bool> take(Envelope& answer) override;
  // Whether the engine that was started last has joined.
  bool joined() const { return starts_met_ == hooks_.engine_starts(); }

 private:
  Status take_status(const StatusAnswer& status);
  void note_absence();

  RunFolder& folder_;
  Session& session_;
  const Clock& clock_;
  EngineWatchHooks hooks_;
  std::uint32_t status_ms_;
  RunProgress& progress_;
  std::uint64_t question_ = 0;  // 0: none is open
  std::int64_t asked_us_ = 0;
  std::int64_t lost_us_ = 0;      // since when there is no engine; 0: there is one
  std::uint32_t starts_met_ = 0;  // engine starts that have been seen joined
};

}  // namespace millrace::client
