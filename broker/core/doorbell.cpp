#include "broker/core/doorbell.hpp"

#include <algorithm>
#include <utility>

#include "broker/core/results.hpp"

namespace millrace::broker {

void Doorbell::written(const FinishReply& entry) {
  due(entry.tenant, entry.stream, entry.epoch, entry.number);
  if (entry.stream != rejected_stream) {
    out_.tally().ended(entry);
    if (out_.tells_jobs()) out_.tell({JobStep::ended, entry.tenant, entry.job, {}, 0, entry});
  }
  if (entry.batch.empty()) return;
  rates_.ended(entry.tenant, entry.batch, out_.now().mono_us);
  if (entry.batch_number != 0) due(entry.tenant, batches_stream, entry.epoch, entry.batch_number);
}

void Doorbell::written_elsewhere(const std::string& tenant, const std::string& stream,
                                 const std::string& epoch, std::uint64_t high) {
  const auto known = streams_.find({tenant, stream});
  if (known == streams_.end() || known->second.high < high) due(tenant, stream, epoch, high);
}

void Doorbell::due(const std::string& tenant, const std::string& stream, const std::string& epoch,
                   std::uint64_t high) {
  const std::pair key(tenant, stream);
  if (streams_.size() >= streams_kept && !streams_.contains(key)) {
    const auto oldest = std::min_element(
        streams_.begin(), streams_.end(),
        [](const auto& a, const auto& b) { return a.second.written_us < b.second.written_us; });
    streams_.erase(oldest);
  }
  auto& state = streams_[key];
  state.epoch = epoch;
  state.high = std::max(state.high, high);
  state.written_us = out_.now().mono_us;
  state.due = true;
  due_ = true;
}

void Doorbell::flush() {
  if (!due_) return;
  due_ = false;
  for (auto& [key, state] : streams_) {
    if (!std::exchange(state.due, false)) continue;
    state.rung_us = out_.now().mono_us;
    out_.ring({key.first, key.second, state.epoch, state.high});
  }
}

void Doorbell::tick() {
  const auto now = out_.now().mono_us;
  std::erase_if(streams_,
                [&](const auto& item) { return now - item.second.written_us > repeat_for_us; });
  for (auto& [key, state] : streams_) {
    if (now - state.rung_us < 1000 * std::int64_t{config_.doorbell_ms}) continue;
    state.rung_us = now;
    out_.ring({key.first, key.second, state.epoch, state.high});
  }
}

}  // namespace millrace::broker
