#pragma once
// The leases that this engine holds. A lease stays here until the broker says that its end is on
// disk (committed) or that the lease is not current any more (stale):
//
//   waiting ──▶ running ──▶ ended ──▶ (committed or stale: removed)
//
// A job marked `alone` starts when nothing else runs, and nothing starts beside it.
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

  // Returns the next task that may run now and marks it as running.
  std::optional<Task> start_next();
  // Records that the executor has ended a lease. False: the lease was dropped meanwhile, so its
  // result is not wanted.
  bool stopped(LeaseId lease);
  void add_ended(JobEnd end);  // for a lease that has stopped, or never waited

  enum class State : std::uint8_t { unknown, waiting, running, ended };
  State state(LeaseId lease) const;
  // Removes a lease that is no longer this engine's, and returns the state that it had. A running
  // one still occupies the executor until it stops.
  State drop(LeaseId lease);

  // Returns ends to send now, oldest first: at most `count` of them and about `bytes` in all, but
  // at least one if there is any. They count as sent at now_us.
  std::vector<JobEnd> take_unsent(std::int64_t now_us, std::size_t count, std::size_t bytes);
  // Makes ends that were sent up to this time, and not answered, unsent again.
  void send_again(std::int64_t sent_until_us);
  bool has_unsent() const { return !unsent_.empty(); }

  std::vector<LeaseId> all() const;  // what a heartbeat lists
  std::vector<LeaseId> in_state(State state) const;
  std::size_t waiting() const { return waiting_.size(); }
  std::size_t running() const { return running_; }  // includes dropped ones that have not stopped
  std::size_t unconfirmed() const { return unconfirmed_; }
  std::size_t unconfirmed_bytes() const { return unconfirmed_bytes_; }
  bool empty() const { return held_.empty(); }

 private:
  static constexpr std::int64_t unsent = INT64_MAX;
  struct Held {
    State state = State::waiting;
    bool alone = false;
    Task task;  // while waiting
    JobEnd end;
    std::int64_t sent_us = unsent;
  };

  std::map<LeaseId, Held> held_;
  std::deque<LeaseId> waiting_;
  std::deque<LeaseId> unsent_;       // may name leases that are gone
  std::map<LeaseId, bool> dropped_;  // leases that run though no longer held -> runs alone
  std::size_t running_ = 0, unconfirmed_ = 0, unconfirmed_bytes_ = 0;
  bool alone_ = false;  // the running job must run alone
};

}  // namespace millrace::worker
