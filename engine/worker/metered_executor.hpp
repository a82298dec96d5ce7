#pragma once
// An executor around another one that measures what passes between it and the link, and shows it as
// a page of metrics. Thread safety: that of Executor; any thread may ask for the page.
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "engine/worker/executor_around.hpp"
#include "schemas/base/histogram.hpp"

namespace millrace::worker {

class MeteredExecutor final : public ExecutorAround {
 public:
  explicit MeteredExecutor(Executor& inner);

  void add(Task task) override;
  std::vector<Ended> take_ends() override;
  std::vector<LeaseId> take_begun() override;

  std::string page() const;

 private:
  void count(const Ended& ended);

  mutable std::mutex mutex_;      // guards what follows
  std::map<LeaseId, bool> held_;  // whether a step computes it
  std::map<std::string, std::uint64_t> reasons_;
  std::map<Code, std::uint64_t> errors_;
  Histogram first_token_, latency_, queue_time_;  // seconds
};

}  // namespace millrace::worker
