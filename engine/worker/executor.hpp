#pragma once
// What runs jobs, as the link sees it: the real engine (engine_executor.hpp) or a stand-in for
// benchmarks and tests. Thread safety: every function may be called from the link's thread while
// the executor works on threads of its own; none waits for a step.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/limits.hpp"
#include "schemas/messages.hpp"

namespace millrace::worker {

struct ExecutorInfo {
  EngineProfile engine;
  std::uint32_t capacity = 1;  // jobs it takes at once: those it runs and some that wait
};

// One job. Its request carries a seed.
struct Task {
  LeaseId lease = 0;
  std::string custom_id;
  GenerationRequest request;
  std::uint32_t priority = limits::priority_default;
};

struct Ended {
  LeaseId lease = 0;
  std::optional<Error> error;  // failed: no result
  bool cancelled = false;      // the result holds what was generated
  GenerationResult result;
};

struct TaskPartial {
  LeaseId lease = 0;
  Partial partial;
};

// `steps` and `tokens` only grow, when a step has really ended, so that a hung engine shows.
struct Progress {
  std::uint64_t steps = 0, tokens = 0;
  std::uint32_t rows = 0;  // sequences in the step under way; 0: none is
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const ExecutorInfo& info() const = 0;
  // Every task ends once, by take_ends: a refused one with its error, a cancelled one as such.
  // Tasks beyond `capacity` are taken as well; the caller does not give more than a few times that.
  virtual void add(Task task) = 0;
  virtual void cancel(LeaseId lease) = 0;  // unknown ones are ignored
  virtual std::vector<Ended> take_ends() = 0;
  // What running tasks that ask for partials gave since the last call, one entry a choice.
  virtual std::vector<TaskPartial> take_partials() { return {}; }
  virtual Progress progress() const = 0;
  // Why it can run nothing any more: its device is lost. Tasks not yet ended never will.
  virtual std::optional<Error> failure() const = 0;
  // Called on the executor's thread when there is something to take. Once this returns, the
  // function set before is not running and will not be called any more.
  virtual void on_change(std::function<void()> wake) = 0;
};

}  // namespace millrace::worker
