#include "broker/core/batch_rates.hpp"

#include <algorithm>

namespace millrace::broker {

void BatchRates::ended(const std::string& tenant, const std::string& batch, std::int64_t mono_us) {
  const std::pair key(tenant, batch);
  auto found = rates_.find(key);
  if (found == rates_.end()) {
    if (rates_.size() >= batches_kept) {
      rates_.erase(std::ranges::min_element(rates_, {},
                                            [](const auto& item) { return item.second.last_us; }));
    }
    found = rates_.emplace(key, Rate{mono_us, mono_us, 0, {}}).first;
  }
  Rate& rate = found->second;
  // Slots since the last end are of an earlier turn.
  const std::int64_t now = mono_us / slot_us, last = rate.last_us / slot_us;
  for (std::int64_t slot = std::max(last + 1, now - slots + 1); slot <= now; ++slot) {
    rate.ends[static_cast<std::size_t>(slot % slots)] = 0;
  }
  const std::int64_t since_us = mono_us - rate.last_us;
  if (since_us < slots * slot_us) rate.longest_us = std::max(rate.longest_us, since_us);
  rate.last_us = mono_us;
  ++rate.ends[static_cast<std::size_t>(now % slots)];
}

double BatchRates::jobs_per_second(const std::string& tenant, const std::string& batch,
                                   std::int64_t mono_us) const {
  const auto found = rates_.find({tenant, batch});
  if (found == rates_.end()) return 0;
  const Rate& rate = found->second;
  if (mono_us - rate.last_us > std::max(10 * rate.longest_us, quiet_us)) return 0;
  const std::int64_t now = mono_us / slot_us, last = rate.last_us / slot_us;
  std::uint64_t ends = 0;
  for (std::int64_t slot = std::max(now - slots + 1, last - slots + 1); slot <= last; ++slot) {
    if (slot >= 0) ends += rate.ends[static_cast<std::size_t>(slot % slots)];
  }
  // The window begins with a slot, or with the first end that was seen.
  const std::int64_t begin_us = std::max((now - slots + 1) * slot_us, rate.first_us);
  const std::int64_t window_us = std::max<std::int64_t>(mono_us - begin_us, 1'000'000);
  return static_cast<double>(ends) * 1e6 / static_cast<double>(window_us);
}

}  // namespace millrace::broker
