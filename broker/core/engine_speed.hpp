#pragma once
// How fast an engine ends its jobs: in tokens of their cost (job_cost.hpp) for each second in which
// it holds some. It counts over the last ends, two to four times as many as the engine holds at
// once, so that jobs which begin and end together count as what they are, whether they take
// seconds or hours. Time comes in with the calls.
//
// After a restart of the broker it begins anew. The costs of the leases that were live are read
// from the jobs' records, so their ends count like any others, in the time since the restart. Not
// counted is the end of a job whose cost is not known: one that another broker handed out. Thread
// safety: none.
#include <algorithm>
#include <cstdint>

namespace millrace::broker {

class EngineSpeed {
 public:
  // Call it before each change of what the engine holds, with how many leases it has until then.
  void pass_time(std::int64_t mono_us, std::size_t leases) {
    if (leases > 0) now_.busy_us += mono_us - last_us_;
    now_.most_leases = std::max(now_.most_leases, leases);
    last_us_ = mono_us;
  }
  void ended(std::uint64_t cost_tokens) {  // 0: not known
    if (cost_tokens == 0) return;
    now_.tokens += cost_tokens;
    if (++now_.ends < std::max(fewest_ends, 2 * now_.most_leases)) return;
    before_ = now_;
    now_ = {};
  }
  void computes(std::uint32_t rows) { now_.rows = std::max(now_.rows, rows); }  // in one step

  // 0: it is not known, because none of its jobs has ended yet.
  double tokens_per_second() const {
    const auto busy_us = static_cast<double>(before_.busy_us + now_.busy_us);
    return busy_us <= 0 ? 0 : static_cast<double>(before_.tokens + now_.tokens) * 1e6 / busy_us;
  }
  double tokens_per_job() const {
    const std::size_t ends = before_.ends + now_.ends;
    return ends == 0
               ? 0
               : static_cast<double>(before_.tokens + now_.tokens) / static_cast<double>(ends);
  }
  // The most jobs that it has computed at once.
  std::uint32_t rows() const { return std::max(before_.rows, now_.rows); }

 private:
  static constexpr std::size_t fewest_ends = 16;
  struct Count {
    std::uint64_t tokens = 0;
    std::int64_t busy_us = 0;
    std::size_t ends = 0, most_leases = 0;
    std::uint32_t rows = 0;
  };
  Count before_, now_;
  std::int64_t last_us_ = 0;
};

}  // namespace millrace::broker
