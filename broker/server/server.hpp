#pragma once
// A broker with sockets and a ledger on disk, on a thread of its own: what `millrace-broker` runs
// and `millrace run` holds. Handles no signals and never ends the process.
//
//   ROUTER clients ─┐             ┌─▶ core (state machine) ─▶ ledger client ─▶ ledger thread
//   ROUTER engines ─┼─▶ owner's ──┤                                             │ commits
//   PULL push ──────┘   thread    └◀──────────────── completions ◀──────────────┘
//   PUB doorbell ◀────────┘
//
// Thread safety: all methods from any thread, except that of the callbacks in ServerOptions, which
// must not call wait or stop.
#include <cstdint>
#include <memory>
#include <string>

#include "broker/ledger/ledger_thread.hpp"
#include "broker/server/options.hpp"
#include "schemas/base/error.hpp"

namespace millrace::broker {

struct ServerStatistics {
  CoreCounters core;
  LedgerStatistics ledger;
  std::uint64_t sessions = 0;
  std::uint64_t dropped_messages = 0;
};

class BrokerServer {
 public:
  // Opens the ledger, binds, begins. Errors: those of the ledger (ledger_in_use, ledger_newer,
  // ledger_corrupt, ledger_settings, disk_full, io_error) and of the endpoints (usage,
  // unauthorized, io_error); nothing is left behind.
  static Result<std::unique_ptr<BrokerServer>> start(ServerOptions options);
  ~BrokerServer();  // stops
  BrokerServer(const BrokerServer&) = delete;
  BrokerServer& operator=(const BrokerServer&) = delete;

  // As bound; empty where there is none.
  std::string clients() const;
  std::string engines() const;
  std::string doorbell() const;
  std::string push() const;

  // Begins a graceful stop: no new jobs, no hand-outs; what is running gets drain_wait_ms.
  // `engines`: they are told to finish or release what they hold, and to leave.
  void drain(bool engines = false);
  // The supervisor saw an engine process end: its jobs are handed on without waiting for leases to
  // lapse. By instance id or name; empty: every engine.
  void engine_died(const std::string& engine);
  bool running() const;
  // Until it has ended. Error: why it had to stop, e.g. a failed ledger; what was acknowledged is
  // safe, the next start recovers.
  Status wait();
  // Drains without waiting for leased jobs, then waits. Leases stay live for the next start.
  Status stop();
  ServerStatistics statistics() const;

 private:
  struct State;
  explicit BrokerServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace::broker
