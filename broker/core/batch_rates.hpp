#pragma once
// How fast the jobs of batches ended in the last minutes, as far as this broker process saw it. It
// remembers the batches whose jobs ended last. Thread safety: none.
#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace millrace::broker {

class BatchRates {
 public:
  void ended(const std::string& tenant, const std::string& batch, std::int64_t mono_us);
  // 0: no job ended in the window, or none for ten times as long as ever before and for half a
  // minute: perhaps nothing can run the jobs that are left.
  double jobs_per_second(const std::string& tenant, const std::string& batch,
                         std::int64_t mono_us) const;

  static constexpr std::int64_t slot_us = 10'000'000;
  static constexpr std::int64_t slots = 30;  // the window is five minutes
  static constexpr std::int64_t quiet_us = 30'000'000;
  static constexpr std::size_t batches_kept = 1'000;

 private:
  struct Rate {
    std::int64_t first_us = 0, last_us = 0;   // first and last end
    std::int64_t longest_us = 0;              // longest time between two ends in one window
    std::array<std::uint32_t, slots> ends{};  // by slot modulo `slots`
  };
  std::map<std::pair<std::string, std::string>, Rate> rates_;
};

}  // namespace millrace::broker
