#pragma once
// The embedded broker and engine of one command: a BrokerServer over ipc with its ledger in a
// folder, and one engine process that is kept alive. `millrace run` and `millrace score` use them
// like any broker, through a Session. The backend is a handler of their loop and watches both.
// Errors: those of BrokerServer::start, of the engine's start and of the session.
// Thread safety: one thread, which must outlive the backend (the engine dies with that thread).
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/link/event_loop.hpp"
#include "client/run/observer.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/env.hpp"

namespace millrace::client {

struct BackendOptions {
  std::string folder;                  // holds the ledger and the engine's log
  std::string engine;                  // program; empty: millrace-engine beside this program
  std::vector<std::string> arguments;  // of the engine, without --broker
  std::string fingerprint;             // engines with another one get no job; empty: any
  std::uint32_t step_limit_s = 120;    // the engine exits if a step takes longer
  bool folder_stays = true;            // the folder outlives the backend: errors may name its files
};

// How long the broker waits for a step. It waits longer than the engine, whose own error says more.
constexpr std::uint32_t hang_ms(std::uint32_t step_limit_s) {
  return (step_limit_s + 10) * 1'000;
}

class Backend : public EventHandler {
 public:
  // The destructor stops broker and engine. Leases stay in the ledger.
  static Result<std::unique_ptr<Backend>> start(const BackendOptions& options, Env& env,
                                                const Clock& clock, RunObserver& observer);

  virtual Session& session() = 0;
  virtual void engine_silent() = 0;  // treats the engine as hung: kills and restarts it
  virtual std::uint32_t engine_starts() const = 0;
  virtual void stop() = 0;
};

}  // namespace millrace::client
