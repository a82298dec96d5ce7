#pragma once
// An executor around another one that makes a span of each job whose trace is recorded: from the
// engine's acceptance to the end, with what was asked for, tokens and times, under the names of
// OpenTelemetry's conventions for generative AI. It is a child of the broker's span of the job.
// Thread safety: that of Executor, but the link's thread alone adds tasks and takes ends.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/worker/executor_around.hpp"
#include "schemas/base/clock.hpp"
#include "schemas/trace/exporter.hpp"

namespace millrace::worker {

class TracedExecutor final : public ExecutorAround {
 public:
  // `name` is the engine's. Inner executor, exporter and clock must outlive it.
  TracedExecutor(Executor& inner, trace::Exporter& exporter, std::string name, const Clock& clock)
      : ExecutorAround(inner), exporter_(exporter), name_(std::move(name)), clock_(clock) {}

  // Ends the spans of jobs that have not ended: a drain gives them back to the broker.
  ~TracedExecutor() override;
  TracedExecutor(const TracedExecutor&) = delete;
  TracedExecutor& operator=(const TracedExecutor&) = delete;

  void add(Task task) override;
  std::vector<Ended> take_ends() override;
  ExecutorCounts counts() const override;

 private:
  void end(trace::Span span, const Ended& ended);

  trace::Exporter& exporter_;
  const std::string name_;
  const Clock& clock_;
  std::map<LeaseId, trace::Span> open_;
};

}  // namespace millrace::worker
