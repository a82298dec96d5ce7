#pragma once
// A broker with sockets and a ledger on disk, on a thread of its own. `millrace-broker` and
// `millrace run` use it. It handles no signals and never ends the process.
//
//   ROUTER clients ─┐             ┌─▶ core (state machine) ─▶ ledger client ─▶ ledger thread
//   ROUTER engines ─┼─▶ owner's ──┤                                             │ commits
//   PULL push ──────┘   thread    └◀──────────────── completions ◀──────────────┘
//   PUB doorbell ◀────────┘
//
// Thread safety: any thread may call any method, but the callbacks in ServerOptions must not call
// wait or stop.
#include <cstdint>
#include <memory>
#include <string>

#include "broker/ledger/ledger_thread.hpp"
#include "broker/server/measuring.hpp"
#include "broker/server/options.hpp"
#include "schemas/base/error.hpp"

namespace millrace::broker {

struct ServerStatistics {
  CoreCounters core;
  LedgerStatistics ledger;
  std::uint64_t sessions = 0;
  std::uint64_t dropped_messages = 0;
  std::uint64_t refused_connections = 0;  // keys, handshakes, subscriptions
};

class BrokerServer {
 public:
  // Opens the ledger, binds the sockets and starts the thread. Errors: those of the ledger
  // (ledger_in_use, ledger_newer, ledger_older, ledger_corrupt, ledger_settings, disk_full,
  // io_error), of the endpoints (usage, unauthorized, io_error) and of the keys (key_file.hpp,
  // keyring.hpp, stranger_test.hpp); after an error nothing runs.
  static Result<std::unique_ptr<BrokerServer>> start(ServerOptions options);
  ~BrokerServer();  // stops
  BrokerServer(const BrokerServer&) = delete;
  BrokerServer& operator=(const BrokerServer&) = delete;

  // The endpoints as bound; empty where there is none.
  std::string clients() const;
  std::string engines() const;
  std::string doorbell() const;
  std::string push() const;

  // Begins an orderly stop: the broker takes no new jobs and hands out none; running jobs get
  // drain_wait_ms. `engines` also tells engines to finish or release their jobs, and to leave.
  void drain(bool engines = false);
  // Replaces the settings that may change while the broker runs, and reads the list of keys again.
  void retune(CoreTuning tuning);
  // Reports that an engine process has ended: the broker takes its leases back at once instead of
  // waiting for them to lapse. `engine` is an instance id or a name; empty: every engine.
  void engine_died(const std::string& engine);
  bool running() const;
  // Waits until the broker has ended. Error: why it had to stop, such as a failed ledger;
  // everything acknowledged is on disk, and the next start recovers it.
  Status wait();
  // Drains without waiting for leased jobs, then waits for the end. Leases stay live for the next
  // start.
  Status stop();
  ServerStatistics statistics() const;
  // Measures the broker and asks the ledger what it holds, and calls `then`, on the broker's thread
  // or, where the broker has ended, at once. Nothing is measured while nobody asks, and those who
  // ask at the same time share an answer. Errors: draining (the broker has ended).
  void measure(Measured then);

 private:
  struct State;
  explicit BrokerServer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace millrace::broker
