#pragma once
// What engines say: hello, credit, heartbeats, partials, ends, releases, goodbye. Thread safety:
// none.
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_set>
#include <vector>

#include "broker/core/dispatcher.hpp"
#include "broker/core/doorbell.hpp"
#include "broker/core/engine_table.hpp"
#include "broker/core/lease_reclaimer.hpp"
#include "broker/core/models.hpp"
#include "broker/core/outbox.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

class Engines {
 public:
  Engines(Outbox& out, const CoreConfig& config, EngineTable& table, Sessions& sessions,
          Models& models, Dispatcher& dispatcher, LeaseReclaimer& reclaimer, Doorbell& doorbell)
      : out_(out),
        config_(config),
        table_(table),
        sessions_(sessions),
        models_(models),
        dispatcher_(dispatcher),
        reclaimer_(reclaimer),
        doorbell_(doorbell) {}

  // Before the session opens: whoever was on this connection may be another process.
  void before_hello(const Peer& peer, const Hello& hello);
  // The session is open; Welcome has been sent.
  void hello(const Peer& peer, const Hello& hello);
  void ready(Engine& engine, const Ready& ready);
  void heartbeat(Engine& engine, std::uint64_t id, const Heartbeat& heartbeat);
  void ends(Engine& engine, std::uint64_t id, Ends ends);
  void release(Engine& engine, const Release& release);
  // Passed on to the sessions that watch the job's stream: not stored, not counted, not answered.
  void partials(Engine& engine, Partials partials);
  // Cancel was asked for: tells the engines that hold these.
  void cancel(const std::vector<LapsedLease>& leases);
  void drain();  // tells all engines to finish or release what they hold, and leave
  bool idle() const { return finishing_.empty(); }
  // An end that the ledger could not take for lack of space: the broker must stop.
  const std::optional<Error>& fatal() const { return fatal_; }

 private:
  void progress(Engine& engine, const Heartbeat& heartbeat);
  void renewed(const std::string& engine, std::uint64_t id, const std::vector<LeaseId>& asked,
               std::vector<LeaseId> done, Result<Reply> reply);
  void adopt(Engine& engine, const std::vector<LeaseId>& asked, const RenewReply& reply);
  void finished(const std::string& engine, std::uint64_t id, const std::vector<LeaseId>& leases,
                Committed answer, Replies replies);
  void remember(LeaseId lease);

  static constexpr std::size_t ends_kept = 65'536;

  Outbox& out_;
  const CoreConfig& config_;
  EngineTable& table_;
  Sessions& sessions_;
  Models& models_;
  Dispatcher& dispatcher_;
  LeaseReclaimer& reclaimer_;
  Doorbell& doorbell_;
  std::optional<Error> fatal_;
  std::unordered_set<LeaseId> finishing_;  // their ends are on the way to disk
  // Lately committed: an engine that missed the answer and sends the end again is told so.
  std::unordered_set<LeaseId> committed_;
  std::deque<LeaseId> committed_order_;
};

}  // namespace millrace::broker
