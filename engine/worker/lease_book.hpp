#pragma once
// The leases that this engine holds, from hand-out to the broker's word that the end is on disk:
//
//   waiting ──▶ running ──▶ ended ──▶ (committed, or stale: forgotten)
//
// A job marked `alone` starts when nothing else runs and keeps everything else waiting.
// Thread safety: none; the link's thread owns it.
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <vector>

#include "engine/worker/job_end.hpp"

namespace millrace::worker {

class LeaseBook {
 public:
  bool knows(LeaseId lease) const { return held_.contains(lease); }
  void add(Task task, bool alone);

  // The next task that may run now; it counts as running from then on.
  std::optional<Task> start_next();
  // The executor is done with a lease. False where its result is not wanted, because the lease was
  // dropped meanwhile.
  bool stopped(LeaseId lease);
  void add_ended(JobEnd end);  // of a lease that has stopped, or never waited

  enum class Was : std::uint8_t { unknown, waiting, running, ended };
  Was state(LeaseId lease) const;
  // No longer this engine's. A running one still occupies the executor until it stops.
  Was drop(LeaseId lease);

  // Ends to send now, oldest first, at most `count` and about `bytes` of them (one at least); they
  // count as sent at now_us.
  std::vector<JobEnd> take_unsent(std::int64_t now_us, std::size_t count, std::size_t bytes);
  // Those sent up to then and not answered are sent again.
  void send_again(std::int64_t sent_until_us);
  bool has_unsent() const { return !unsent_.empty(); }

  std::vector<LeaseId> all() const;  // what a heartbeat lists
  std::vector<LeaseId> in_state(Was state) const;
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t running() const { return running_; }  // dropped ones included
  std::size_t unconfirmed() const { return unconfirmed_; }
  std::size_t unconfirmed_bytes() const { return unconfirmed_bytes_; }
  bool empty() const { return held_.empty(); }

 private:
  static constexpr std::int64_t unsent = INT64_MAX;
  struct Held {
    Was state = Was::waiting;
    bool alone = false;
    Task task;  // while waiting
    JobEnd end;
    std::int64_t sent_us = unsent;
  };

  std::map<LeaseId, Held> held_;
  std::deque<LeaseId> waiting_;
  std::deque<LeaseId> unsent_;       // may name some that are gone
  std::map<LeaseId, bool> dropped_;  // running though no longer held; whether alone
  std::size_t running_ = 0, unconfirmed_ = 0, unconfirmed_bytes_ = 0;
  bool alone_ = false;  // what runs must run alone
};

}  // namespace millrace::worker
