#pragma once
// The broker's logic as a state machine: it takes an event and the time, and returns ledger
// operations and messages. It has no sockets, threads or clocks, so that the same object runs in
// the server and in the seeded simulator.
//
//   every message ─▶ access: may the key of its connection send it?
//   hello ─▶ sessions            submit, push ─▶ submissions ─┐
//   ready, heartbeat, ends,      fetch ─▶ readers             ├─▶ ledger requests ─▶ completions
//   release ─▶ engines           acknowledge, cancel, retry,  │
//                                status ─▶ requests ──────────┘
//   tick ─▶ lease reclaimer (dead, hung, lapsed), dispatcher (hand-outs), doorbell
//
// Messages wait here until the broker has read from the ledger which leases were live before its
// start. Each part states its rules at the top of its header. Thread safety: none; one owner.
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "broker/core/access.hpp"
#include "broker/core/backups.hpp"
#include "broker/core/batch_requests.hpp"
#include "broker/core/dispatcher.hpp"
#include "broker/core/doorbell.hpp"
#include "broker/core/engine_table.hpp"
#include "broker/core/engines.hpp"
#include "broker/core/job_requests.hpp"
#include "broker/core/lease_reclaimer.hpp"
#include "broker/core/models.hpp"
#include "broker/core/other_brokers.hpp"
#include "broker/core/pause_requests.hpp"
#include "broker/core/readers.hpp"
#include "broker/core/requests.hpp"
#include "broker/core/retainer.hpp"
#include "broker/core/sessions.hpp"
#include "broker/core/stream_requests.hpp"
#include "broker/core/submissions.hpp"

namespace millrace::broker {

class Broker {
 public:
  explicit Broker(CoreConfig config);
  Broker(const Broker&) = delete;
  Broker& operator=(const Broker&) = delete;

  Actions handle(Event event, Now now);

  // False while the caller must leave pushed jobs in their socket.
  bool accepts_push() const { return ready() && !draining_ && submissions_.takes_push(); }
  bool draining() const { return draining_; }
  // The drain is complete: everything acknowledged is on disk, every session got a goodbye.
  bool stopped() const { return stopped_; }
  // A drain has waited as long as it may: it waits for commits alone, and not for a ledger that is
  // unavailable.
  bool overdue() const { return overdue_; }
  // Set when continuing could lose a result: the process must end with this error.
  const std::optional<Error>& fatal() const { return engines_.fatal(); }
  const CoreCounters& counters() const { return out_.counters(); }
  const Tally& tally() const { return out_.tally(); }
  std::size_t sessions() const { return sessions_.size(); }
  std::size_t engine_sessions() const { return sessions_.engines(); }
  std::map<std::string, std::uint64_t> leased_tokens() const { return table_.leased_tokens(); }

 private:
  bool ready() const { return recovering_ == 0; }
  void start();
  void recover();
  void recovered();
  void received(Received event);
  void message(Received event);
  void client_message(const Asker& asker, Message message);
  void engine_message(const Peer& peer, std::uint64_t id, Message message);
  void push_message(const std::string& tenant, Message message);
  void hello(const Peer& peer, std::uint64_t id, const Hello& hello, const Grant& who);
  void goodbye(const Peer& peer);
  void replace_grants(const std::vector<Grant>& grants);
  void malformed(Malformed event);
  void peer_gone(const PeerGone& gone);
  void tick();
  void sweep();
  void count_queues(std::function<void(const std::vector<TenantInfo>&)> then);
  void expire(const std::string& tenant);
  void start_jobs(const std::string& tenant);
  void pause_changed(const std::string& tenant, bool paused, const PauseReply& reply);
  void drain(const Drain& how);
  void check_drained();
  void cut_short();
  void say_goodbye(const std::string& reason);
  void refuse_unexpected(const Peer& peer, std::uint64_t id, const Message& message);

  static constexpr std::size_t early_messages = 1'000;
  static constexpr std::uint64_t early_bytes = 64 * limits::MiB;

  CoreConfig config_;
  Outbox out_;
  Access access_;
  Sessions sessions_;
  Answers answers_;
  Doorbell doorbell_;
  Models models_;
  EngineTable table_;
  Dispatcher dispatcher_;
  LeaseReclaimer reclaimer_;
  Engines engines_;
  OtherBrokers others_;
  Submissions submissions_;
  Readers readers_;
  Requests requests_;
  JobRequests job_requests_;
  BatchRequests batch_requests_;
  PauseRequests pause_requests_;
  StreamRequests stream_requests_;
  Retainer retainer_;
  Backups backups_;
  int recovering_ = 1;  // steps left until the ledger's state is known
  std::deque<Received> early_;
  std::uint64_t early_bytes_ = 0;
  bool draining_ = false, drain_at_once_ = false, overdue_ = false, stopped_ = false;
  std::set<std::string> expiring_, starting_;  // tenants
  std::int64_t swept_us_ = 0, drain_us_ = 0;
};

}  // namespace millrace::broker
