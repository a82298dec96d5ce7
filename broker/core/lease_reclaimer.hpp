#pragma once
// Finds engines that are dead, hung or gone, gives their leases back to the ledger, and decides
// whether their jobs are blamed. Thread safety: none.
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "broker/core/dispatcher.hpp"
#include "broker/core/doorbell.hpp"
#include "broker/core/engine_table.hpp"
#include "broker/core/outbox.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

class LeaseReclaimer {
 public:
  LeaseReclaimer(Outbox& out, const CoreConfig& config, EngineTable& engines, Sessions& sessions,
                 Dispatcher& dispatcher, Doorbell& doorbell)
      : out_(out),
        config_(config),
        engines_(engines),
        sessions_(sessions),
        dispatcher_(dispatcher),
        doorbell_(doorbell) {}

  // Reads the leases that were live before this start. Where their engines are certainly gone
  // (CoreConfig::previous_engines_are_gone), it gives all of them back without blame.
  void recover(std::function<void()> then);

  // Reads what the ledger knows of leases that the table has without their jobs.
  void learn(const std::string& engine);
  // `only_own`: but for leases that another broker, which lives, has renewed meanwhile.
  void give_back(const std::string& engine, std::vector<LeaseId> leases, Blame blame,
                 bool only_own = false);
  // The engine leaves on purpose: gives its leases back without blame and removes it.
  void leave(const std::string& engine);
  // The engine's process is gone: gives its leases back, makes their jobs suspects, removes it.
  void died(const std::string& engine, const std::string& how);
  void died_by_name(const std::string& engine);  // instance or name; empty: all engines
  void sweep();
  // Whether this lease is being given back. A heartbeat that names it must not take it up again.
  bool leaving(LeaseId lease) const { return leaving_.contains(lease); }
  // These leases are no longer valid: tells their engines to stop the jobs.
  void revoke(const std::vector<LapsedLease>& leases);

 private:
  void recover_facts(std::vector<LapsedLease> leases, std::function<void()> then);
  void silence(Engine& engine);
  void hang(Engine& engine);
  std::vector<std::string> ids_of_absent() const;
  void find_lapsed();
  void lapsed(const std::string& engine, const std::vector<LeaseId>& leases);

  Outbox& out_;
  const CoreConfig& config_;
  EngineTable& engines_;
  Sessions& sessions_;
  Dispatcher& dispatcher_;
  Doorbell& doorbell_;
  std::unordered_set<LeaseId> leaving_;
  std::int64_t waits_from_us_ = 0;  // engines get a lease time from here to come back
  bool finding_ = false;            // waits for the ledger's reply
};

}  // namespace millrace::broker
