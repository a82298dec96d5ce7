#pragma once
// Handles the messages of engines: hello, credit, heartbeats, begun jobs, partials, ends and
// releases. Thread safety: none.
#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
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

  // Call this before the session opens: the engine known on this connection may be another process,
  // which then counts as dead.
  void before_hello(const Peer& peer, const Hello& hello, const Grant& who);
  // Call this when the session is open and Welcome has been sent.
  void hello(const Peer& peer, const Hello& hello, const Grant& who);
  void ready(Engine& engine, const Ready& ready);
  void heartbeat(Engine& engine, std::uint64_t id, const Heartbeat& heartbeat);
  // The engine begins jobs that its heartbeats have called waiting.
  void begun(Engine& engine, const Begun& begun);
  void ends(Engine& engine, std::uint64_t id, Ends ends);
  void release(Engine& engine, const Release& release);
  // Passes partials on to the sessions that watch the job's stream; they are neither stored nor
  // answered.
  void partials(Engine& engine, Partials partials);
  // A client asked to cancel these jobs: tells the engines that hold them.
  void cancel(const std::vector<LapsedLease>& leases);
  void drain();  // tells all engines to finish or release their jobs, and to leave
  bool idle() const { return finishing_.empty(); }
  void tell_uncommitted() const;  // logs what keeps it from being idle
  // Set when the ledger could neither store a result nor refuse it as stale (for example on a full
  // disk): the broker must stop.
  const std::optional<Error>& fatal() const { return fatal_; }

 private:
  // An end that an engine sent. Another engine that names the same lease is told what it would be
  // told of a lease that never existed.
  using EndOf = std::pair<std::string, LeaseId>;

  void progress(Engine& engine, const Heartbeat& heartbeat);
  void renewed(const std::string& engine, std::uint64_t id, const std::vector<LeaseId>& asked,
               std::vector<LeaseId> done, Result<Reply> reply);
  void adopt(Engine& engine, const std::vector<LeaseId>& asked, const RenewReply& reply);
  void finished(const std::string& engine, std::uint64_t id, const std::vector<LeaseId>& leases,
                Committed answer, Replies replies);
  void remember(const EndOf& end);

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
  std::set<EndOf> finishing_;  // these ends wait for the commit
  // Ends that were committed lately: an engine that missed the answer and sends an end
  // again gets the answer again.
  std::set<EndOf> committed_;
  std::deque<EndOf> committed_order_;
};

}  // namespace millrace::broker
