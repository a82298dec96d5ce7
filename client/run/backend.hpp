#pragma once
// The embedded broker and engines of one command: a BrokerServer over ipc with its ledger in a
// folder, and engine processes that are kept alive: one, or one on each of several devices, which
// share the queue. `millrace run` and `millrace score` use them like any broker, through a Session.
// The backend is a handler of their loop and watches all of them.
// Errors: those of BrokerServer::start, of the engine's start and of the session.
// Thread safety: one thread, which must outlive the backend (engines die with that thread).
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/link/event_loop.hpp"
#include "client/run/observer.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/base/env.hpp"

namespace millrace::broker {
class BrokerServer;
}
namespace millrace::trace {
class Exporter;
}

namespace millrace::client {

struct BackendOptions {
  std::string folder;                  // holds the ledger and the engines' log
  std::string engine;                  // program; empty: millrace-engine beside this program
  std::vector<std::string> arguments;  // of each engine, without --broker and its device
  std::string device, devices;         // as --device and --devices are given
  std::string fingerprint;             // engines with another one get no job; empty: any
  std::uint32_t step_limit_s = 120;    // the engine exits if a step takes longer
  bool service = false;                // engines that fail later are started again and again
  bool folder_stays = true;            // the folder outlives the backend: errors may name its files
  std::shared_ptr<trace::Exporter> traces{};  // takes the broker's spans of jobs; null: none
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
  virtual broker::BrokerServer& broker() = 0;
  // Call this for an engine that the broker has lost: kills and restarts its process.
  virtual void engine_silent(const std::string& name) = 0;
  virtual std::uint32_t engine_starts() const = 0;  // of all engines
  virtual std::uint32_t engines() const = 0;        // that are kept alive
  virtual bool engine_met() = 0;                    // an engine has joined
  virtual void stop() = 0;
};

}  // namespace millrace::client
