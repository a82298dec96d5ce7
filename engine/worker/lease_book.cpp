#include "engine/worker/lease_book.hpp"

#include <algorithm>
#include <utility>

namespace millrace::worker {

void LeaseBook::add(Task task, bool alone) {
  const LeaseId lease = task.lease;
  Held held;
  held.alone = alone;
  held.task = std::move(task);
  held_.insert_or_assign(lease, std::move(held));
  waiting_.push_back(lease);
}

void LeaseBook::add_ended(JobEnd end) {
  Held held;
  held.state = State::ended;
  held.end = std::move(end);
  unsent_.push_back(held.end.lease);
  ++unconfirmed_;
  unconfirmed_bytes_ += held.end.result.size();
  const LeaseId lease = held.end.lease;
  held_.insert_or_assign(lease, std::move(held));
}

std::optional<Task> LeaseBook::start_next() {
  if (waiting_.empty() || alone_) return std::nullopt;
  Held& held = held_.at(waiting_.front());
  if (held.alone && running_ > 0) return std::nullopt;
  waiting_.pop_front();
  held.state = State::running;
  ++running_;
  alone_ = held.alone;
  return std::exchange(held.task, {});
}

bool LeaseBook::stopped(LeaseId lease) {
  if (const auto gone = dropped_.find(lease); gone != dropped_.end()) {
    if (gone->second) alone_ = false;
    dropped_.erase(gone);
    --running_;
    return false;
  }
  const auto found = held_.find(lease);
  if (found == held_.end() || found->second.state != State::running) return false;
  if (found->second.alone) alone_ = false;
  --running_;
  held_.erase(found);
  return true;
}

LeaseBook::State LeaseBook::state(LeaseId lease) const {
  const auto found = held_.find(lease);
  return found == held_.end() ? State::unknown : found->second.state;
}

LeaseBook::State LeaseBook::drop(LeaseId lease) {
  const auto found = held_.find(lease);
  if (found == held_.end()) return State::unknown;
  const State was = found->second.state;
  if (was == State::ended) {
    --unconfirmed_;
    unconfirmed_bytes_ -= found->second.end.result.size();
  }
  if (was == State::running) dropped_.emplace(lease, found->second.alone);
  if (was == State::waiting) std::erase(waiting_, lease);
  held_.erase(found);
  return was;
}

std::vector<JobEnd> LeaseBook::take_unsent(std::int64_t now_us, std::size_t count,
                                           std::size_t bytes) {
  std::vector<JobEnd> out;
  std::size_t size = 0;
  for (; !unsent_.empty(); unsent_.pop_front()) {
    const auto found = held_.find(unsent_.front());
    if (found == held_.end() || found->second.sent_us != unsent) continue;
    Held& held = found->second;
    if (!out.empty() && (out.size() == count || size + held.end.result.size() > bytes)) break;
    held.sent_us = now_us;
    size += held.end.result.size();
    out.push_back(held.end);
  }
  return out;
}

void LeaseBook::send_again(std::int64_t sent_until_us) {
  for (auto& [lease, held] : held_) {
    if (held.state != State::ended || held.sent_us > sent_until_us) continue;
    held.sent_us = unsent;
    unsent_.push_back(lease);
  }
}

std::vector<LeaseId> LeaseBook::all() const {
  std::vector<LeaseId> out;
  out.reserve(held_.size());
  for (const auto& [lease, held] : held_) out.push_back(lease);
  return out;
}

std::vector<LeaseId> LeaseBook::in_state(State state) const {
  std::vector<LeaseId> out;
  for (const auto& [lease, held] : held_)
    if (held.state == state) out.push_back(lease);
  return out;
}

}  // namespace millrace::worker
