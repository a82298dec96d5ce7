#pragma once
// An executor around another one that writes a line to the log for each job that it takes up and
// each that ends, at the level debug: the job's id, its custom_id, and the W3C trace context that
// its metadata names as `traceparent`, so that the lines can be found by any of them.
// Thread safety: the link's thread.
#include <map>
#include <string>
#include <vector>

#include "engine/worker/executor_around.hpp"

namespace millrace::worker {

class LoggedExecutor final : public ExecutorAround {
 public:
  using ExecutorAround::ExecutorAround;
  void add(Task task) override;
  std::vector<Ended> take_ends() override;

 private:
  struct Names {
    std::string job, custom_id, traceparent;
  };
  std::map<LeaseId, Names> held_;
};

}  // namespace millrace::worker
