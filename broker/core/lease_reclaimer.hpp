#pragma once
// Who is to blame when leases come back: gives them back to the ledger, and finds the engines that
// are dead, hung or gone. Thread safety: none.
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

  // Learns the live leases of before this start; or, where their engines are gone for sure, gives
  // all of them back unblamed.
  void recover(std::function<void()> then);

  void give_back(const std::string& engine, std::vector<LeaseId> leases, Blame blame);
  // The engine leaves on purpose: its leases return unblamed and it is forgotten.
  void leave(const std::string& engine);
  // Its process is gone: its leases return as suspects and it is forgotten.
  void died(const std::string& engine, const std::string& how);
  void died_by_name(const std::string& engine);  // instance or name; empty: all of them
  void sweep();
  // A lease on its way out of this broker's hands; no heartbeat in flight may bring it back.
  bool leaving(LeaseId lease) const { return leaving_.contains(lease); }
  // The broker ended or lost a lease: the engine is told to stop it.
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
  std::int64_t started_us_ = 0;
};

}  // namespace millrace::broker
