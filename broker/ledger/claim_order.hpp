#pragma once
// The order in which a claim takes the queued jobs of a tenant. It is the order of the queue, by
// priority and then as submitted, with one exception: a look-ahead hands jobs whose prompts begin
// alike to the engine that holds this beginning. Each queued job carries a number that names its
// beginning (`prefix`; 0: too short to matter), and each claim the numbers that its engine holds,
// and those that other engines hold.
//
//   A claim takes, in this order,
//     1. jobs without a number, and jobs whose beginning its engine holds;
//     2. jobs whose beginning no engine holds;
//     3. jobs whose beginning others hold: an engine with nothing better to do always gets work.
//   The claim's engine holds the beginning of each job that it takes from then on, so of 2 and 3 it
//   takes all jobs with one beginning before it begins with the next.
//
// The bound: only jobs of the same priority are looked at, and only those that were submitted fewer
// than `look_ahead` places behind the first job that the claim leaves in the queue. So a job is
// overtaken by fewer than `look_ahead` jobs, all of its own tenant and priority, however many come:
// when all of them are gone, every claim begins with this job. Nothing is remembered for it.
//
// A claim that has passed `looks_in_vain` jobs in a row looks no further: where prompts begin
// differently, looking finds nothing and costs about a microsecond a job.
//
// Suspects are taken in the order of the queue. Thread safety: none.
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>

#include "broker/ledger/records.hpp"

namespace millrace::broker {

class ClaimOrder {
 public:
  // Gives the next job of the claim's queues in their order; none: there is no more.
  using Queue = std::function<std::optional<QueuedJob>()>;

  ClaimOrder(const Claim& claim, std::uint32_t among, std::int64_t now_us, Queue queue);

  // The next job to take. None: there is no more, or claim_overscan jobs are past their deadline.
  std::optional<QueuedJob> next();

 private:
  bool read();  // sets read_ to the next job of the queue that may run now
  bool in_reach() const;
  bool may_take(const QueuedJob& job) const;
  void take_up();

  HeldPrefixes held_;
  const bool in_order_;
  const std::int64_t now_us_;
  Queue queue_;
  std::optional<QueuedJob> read_;  // from the queue, and not looked at yet
  std::deque<QueuedJob> passed_;   // looked at and left, in order
  std::deque<QueuedJob> chosen_;   // to take next
  std::size_t in_vain_ = 0;        // passed since it last came to a job of 1 above
  std::size_t expired_ = 0;
};

}  // namespace millrace::broker
