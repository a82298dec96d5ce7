#pragma once
// Asks the broker about the run's engines: once a second, and more often until an engine that was
// started has joined. Records the first engine's fingerprint in the run's folder; all others must
// have the same one. If the broker has dropped an engine and it does not come back, calls
// engine_silent().
// Errors: settings_changed and those of RunFolder::meet_engine. Thread safety: one thread.
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "client/link/event_loop.hpp"
#include "client/run/observer.hpp"
#include "client/run/run_folder.hpp"

namespace millrace::client {

struct EngineWatchHooks {
  std::function<std::uint32_t()> engine_starts;
  std::function<void(const std::string& name)> engine_silent;
};

class EngineWatch final : public EventHandler {
 public:
  // Writes into `progress` how many jobs the engines run and how fast they are.
  EngineWatch(RunFolder& folder, Session& session, const Clock& clock, EngineWatchHooks hooks,
              std::uint32_t status_ms, RunProgress& progress);

  Status tick() override;
  Result<bool> take(Envelope& answer) override;
  // True if the engine that was started last has joined.
  bool joined() const { return starts_met_ == hooks_.engine_starts(); }

 private:
  Status take_status(const StatusAnswer& status);
  void note_absence(const std::vector<EngineInfo>& present);

  RunFolder& folder_;
  Session& session_;
  const Clock& clock_;
  EngineWatchHooks hooks_;
  std::uint32_t status_ms_;
  RunProgress& progress_;
  std::uint64_t question_ = 0;  // 0: none is open
  std::int64_t asked_us_ = 0;
  std::map<std::string, std::int64_t> seen_;  // by name, since when one is absent; 0: it is there
  std::uint32_t starts_met_ = 0;  // number of engine starts when an engine was last seen to join
};

}  // namespace millrace::client
