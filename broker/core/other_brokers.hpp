#pragma once
// The other brokers on the same ledger. This broker says once a sweep that it lives, and learns
// with each tick what the others have committed: numbers for its doorbells, work for its engines,
// jobs that its engines have to stop. News that are missed cost time, never data: the sweep counts
// the queues, an engine's next heartbeat tells which of its leases are lost or cancelled, and
// readers fetch now and then without a bell. Where the ledger serves one broker
// (CoreConfig::shares_ledger) this does nothing. Thread safety: none.
#include <cstdint>
#include <functional>
#include <vector>

#include "broker/core/dispatcher.hpp"
#include "broker/core/doorbell.hpp"
#include "broker/core/engines.hpp"
#include "broker/core/lease_reclaimer.hpp"
#include "broker/core/models.hpp"
#include "broker/core/outbox.hpp"

namespace millrace::broker {

class OtherBrokers {
 public:
  OtherBrokers(Outbox& out, const CoreConfig& config, Models& models, Dispatcher& dispatcher,
               Engines& engines, LeaseReclaimer& reclaimer, Doorbell& doorbell)
      : out_(out),
        config_(config),
        models_(models),
        dispatcher_(dispatcher),
        engines_(engines),
        reclaimer_(reclaimer),
        doorbell_(doorbell) {}

  // Says for the first time that this broker lives. It may hand nothing out before `then`.
  void join(std::function<void()> then);
  void sweep();
  void tick();
  // The broker ends: its leases are nobody's, and lapse where no engine renews them elsewhere.
  void leave();
  std::uint64_t live() const { return others_; }  // others that live
  // A heartbeat is under way. It may be carried out after what follows it.
  bool beating() const { return beating_; }

 private:
  void beat(std::function<void()> then);
  void take(const NewsReply& reply);

  Outbox& out_;
  const CoreConfig& config_;
  Models& models_;
  Dispatcher& dispatcher_;
  Engines& engines_;
  LeaseReclaimer& reclaimer_;
  Doorbell& doorbell_;
  std::uint64_t others_ = 0;
  bool beating_ = false, reading_ = false;  // wait for the ledger's reply
  NewsMarks marks_;
};

}  // namespace millrace::broker
