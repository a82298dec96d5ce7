#pragma once
// Jobs on their way in: checked, given an id, written, and acknowledged only when the commit that
// holds them has completed. Serves the client door (answered per job) and the push door (one-way:
// what must be refused is written to the `rejected` stream instead). Pushed jobs for which there is
// no room (a full disk or queue) are kept and tried again; no more are read from their socket
// meanwhile, so that their producers wait. Thread safety: none.
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "broker/core/doorbell.hpp"
#include "broker/core/engine_table.hpp"
#include "broker/core/models.hpp"
#include "broker/core/outbox.hpp"
#include "broker/core/sessions.hpp"

namespace millrace::broker {

inline constexpr const char* rejected_stream = "rejected";

// What the ledger keeps of a job beside its body, as a submit would have stored it; empty where the
// job cannot be read. `match_kv`: whether the KV policy that it names is looked at.
JobColumns columns_of(const Body& job, bool match_kv);

class Submissions {
 public:
  Submissions(Outbox& out, const CoreConfig& config, Sessions& sessions, Models& models,
              const EngineTable& engines, Doorbell& doorbell, std::function<void()> on_queued)
      : out_(out),
        config_(config),
        sessions_(sessions),
        models_(models),
        engines_(engines),
        doorbell_(doorbell),
        on_queued_(std::move(on_queued)) {}

  // Answers Submitted after the commit, or Refused: limit_exceeded, overloaded.
  void submit(const Peer& peer, std::uint64_t id, Submit submit);
  void push(Submit submit);
  void reject(const std::string& job, const std::string& custom_id, Error error);
  // False while the jobs that wait for their commit fill their allowance: leave pushes in their
  // socket, where they press back on the producers.
  bool has_room() const { return jobs_ < config_.pending_jobs && bytes_ < config_.pending_bytes; }
  bool takes_push() const { return has_room() && kept_.empty(); }
  void tick();   // tries those kept again
  void drain();  // gives them up
  bool idle() const { return jobs_ == 0; }

 private:
  struct Pending;  // one message
  void begin(const Peer& peer, std::uint64_t id, Submit submit);
  void ask_known(const std::shared_ptr<Pending>& pending);
  void store(const std::shared_ptr<Pending>& pending);
  void stored(Pending& pending, const std::vector<std::size_t>& asked, Replies replies);
  void answer(Pending& pending);
  void keep_or_answer(const std::shared_ptr<Pending>& pending);

  static constexpr std::int64_t try_again_us = 1'000'000;

  Outbox& out_;
  const CoreConfig& config_;
  Sessions& sessions_;
  Models& models_;
  const EngineTable& engines_;
  Doorbell& doorbell_;
  std::function<void()> on_queued_;
  std::uint64_t jobs_ = 0, bytes_ = 0;  // in messages that are not yet answered, and rejections
  std::vector<std::shared_ptr<Pending>> kept_;
  std::int64_t kept_us_ = 0;  // since the first of them, or the last try
  bool draining_ = false;
};

}  // namespace millrace::broker
