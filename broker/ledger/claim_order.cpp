#include "broker/ledger/claim_order.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "broker/ledger/queues.hpp"

namespace millrace::broker {

ClaimOrder::ClaimOrder(const Claim& claim, std::uint32_t among, std::int64_t now_us, Queue queue)
    : held_(claim.prefixes), in_order_(among != 0), now_us_(now_us), queue_(std::move(queue)) {}

bool ClaimOrder::read() {
  while (!read_ && expired_ < claim_overscan) {
    read_ = queue_();
    if (!read_) return false;
    if (read_->deadline_us && *read_->deadline_us <= now_us_) {
      read_.reset();
      ++expired_;
    }
  }
  return read_.has_value();
}

bool ClaimOrder::in_reach() const {
  if (passed_.empty()) return true;
  if (in_vain_ >= looks_in_vain) return false;
  const auto& [priority, sequence] = passed_.front().place;
  return read_->place.first == priority && read_->place.second < sequence + held_.places;
}

bool ClaimOrder::may_take(const QueuedJob& job) const {
  return in_order_ || job.prefix == 0 || held_.by_own(job.prefix);
}

// Chooses a beginning that the engine does not hold, and the passed jobs that have it.
void ClaimOrder::take_up() {
  const auto free = std::ranges::find_if(
      passed_, [this](const QueuedJob& job) { return !held_.by_any(job.prefix); });
  const std::uint64_t prefix = free == passed_.end() ? passed_.front().prefix : free->prefix;
  held_.take(prefix);
  const auto alike = std::ranges::stable_partition(
      passed_, [&](const QueuedJob& job) { return job.prefix != prefix; });
  in_vain_ -= std::min(in_vain_, alike.size());
  std::ranges::move(alike, std::back_inserter(chosen_));
  passed_.erase(alike.begin(), alike.end());
}

std::optional<QueuedJob> ClaimOrder::next() {
  while (chosen_.empty() && read() && in_reach()) {
    QueuedJob job = *std::exchange(read_, std::nullopt);
    if (may_take(job)) {
      in_vain_ = 0;
      return job;
    }
    ++in_vain_;
    passed_.push_back(std::move(job));
  }
  if (chosen_.empty() && !passed_.empty()) take_up();
  if (chosen_.empty()) return std::nullopt;
  QueuedJob job = std::move(chosen_.front());
  chosen_.pop_front();
  return job;
}

}  // namespace millrace::broker
