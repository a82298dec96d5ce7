#pragma once
// The interface through which the link runs jobs. The real engine implements it
// (engine_executor.hpp), and so do stand-ins for benchmarks and tests. Thread safety: every
// function may be called from the link's thread while the executor works on threads of its own;
// none waits for a step.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "schemas/base/histogram.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/messages.hpp"

namespace millrace::worker {

struct ExecutorInfo {
  EngineProfile engine;
  std::uint32_t capacity = 1;  // jobs it holds at once: those it runs and some that wait
};

// One job to run. Its request carries a seed.
struct Task {
  LeaseId lease = 0;
  std::string custom_id;
  GenerationRequest request;
  std::uint32_t priority = limits::priority_default;
  std::uint64_t prefix = 0;  // as in Lease
  std::string job{};         // its id, and the trace context that its metadata names
  std::string traceparent{}, tracestate{};
  std::int64_t submitted_us = 0;  // as in Lease
};

struct Ended {
  LeaseId lease = 0;
  std::optional<Error> error;  // set: the job failed, there is no result
  bool cancelled = false;      // the result holds what was generated
  GenerationResult result;
};

struct TaskPartial {
  LeaseId lease = 0;
  Partial partial;
};

// `steps` and `tokens` grow only when a step has ended, so that a hung engine shows.
struct Progress {
  std::uint64_t steps = 0, tokens = 0;
  std::uint32_t rows = 0;  // sequences in the current step; 0: no step runs
};

// What an executor has done since its start, and does now, for metrics.
struct ExecutorCounts {
  std::uint64_t prompt_tokens = 0;  // also those found in the prefix cache
  std::uint64_t cached_tokens = 0;  // these
  std::uint64_t generated_tokens = 0;
  std::uint64_t preemptions = 0;  // sequences that gave their pages back, to be computed again
  double kv_used = 0;             // share of the KV cache's pages that running sequences hold
  // As in EngineLoad.
  std::uint64_t kv_used_tokens = 0, kv_pool_tokens = 0;
  std::uint64_t kv_used_bytes = 0, kv_pool_bytes = 0;
  std::uint64_t prefix_tokens = 0;
  std::uint32_t max_rows = 0;
  Histogram token_gaps{};                           // seconds between two tokens of a text
  std::uint64_t spans_sent = 0, spans_dropped = 0;  // of traces
};

class Executor {
 public:
  virtual ~Executor() = default;

  virtual const ExecutorInfo& info() const = 0;
  // take_ends returns every task once: a refused one with its error, a cancelled one marked so.
  // Tasks beyond `capacity` are accepted too; callers give no more than a few times that many.
  virtual void add(Task task) = 0;
  virtual void cancel(LeaseId lease) = 0;  // ignores unknown leases
  virtual std::vector<Ended> take_ends() = 0;
  // Text of running tasks that ask for partials, since the last call: one entry for each choice.
  virtual std::vector<TaskPartial> take_partials() { return {}; }
  virtual Progress progress() const = 0;
  virtual ExecutorCounts counts() const { return {}; }
  // Tasks that are ready and that no step has computed yet; empty where the executor cannot tell.
  virtual std::vector<LeaseId> waiting() const { return {}; }
  // Those of them that a step began to compute since the last call.
  virtual std::vector<LeaseId> take_begun() { return {}; }
  // The `prefix` of tasks, also of those that have ended, whose beginnings are still in the cache,
  // those used last first; at most limits::prefixes_per_engine. Empty where the executor cannot
  // tell.
  virtual std::vector<std::uint64_t> prefixes() { return {}; }
  // The error after which the executor can run nothing more: its device is lost. Tasks that have
  // not ended by then never end.
  virtual std::optional<Error> failure() const = 0;
  // Sets the function that the executor calls, on its own thread, when there is something to take.
  // When this returns, the function set before is not running and will not be called again.
  virtual void on_change(std::function<void()> wake) = 0;
};

}  // namespace millrace::worker
