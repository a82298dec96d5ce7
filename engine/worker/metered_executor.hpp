#pragma once
// An executor around another one that measures what passes between it and the link, and shows it as
// a page of metrics. Everything else is the other's. Thread safety: that of Executor; any thread
// may ask for the page.
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/worker/executor.hpp"
#include "schemas/base/histogram.hpp"

namespace millrace::worker {

class MeteredExecutor final : public Executor {
 public:
  explicit MeteredExecutor(Executor& inner);  // must outlive it

  const ExecutorInfo& info() const override { return inner_.info(); }
  void add(Task task) override;
  void cancel(LeaseId lease) override { inner_.cancel(lease); }
  std::vector<Ended> take_ends() override;
  std::vector<TaskPartial> take_partials() override { return inner_.take_partials(); }
  Progress progress() const override { return inner_.progress(); }
  ExecutorCounts counts() const override { return inner_.counts(); }
  std::vector<LeaseId> waiting() const override { return inner_.waiting(); }
  std::vector<LeaseId> take_begun() override;
  std::vector<std::uint64_t> prefixes() override { return inner_.prefixes(); }
  std::optional<Error> failure() const override { return inner_.failure(); }
  void on_change(std::function<void()> wake) override { inner_.on_change(std::move(wake)); }

  std::string page() const;

 private:
  void count(const Ended& ended);

  Executor& inner_;
  mutable std::mutex mutex_;      // guards what follows
  std::map<LeaseId, bool> held_;  // whether a step computes it
  std::map<std::string, std::uint64_t> reasons_;
  std::map<Code, std::uint64_t> errors_;
  Histogram first_token_, latency_, queue_time_;  // seconds
};

}  // namespace millrace::worker
