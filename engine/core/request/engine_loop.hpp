#pragma once
// The engine without its device: it accepts requests, plans steps, gives drawn tokens to requests
// and ends them. It starts step t+1 before it reads the ids of step t; where these decide what a
// row of step t+1 may draw, it enqueues that step's forward pass before and its sampling after.
// Engine::create joins it with a model; tests join it with a runner that fails. Engine
// (engine/core/engine.hpp) documents the public functions. Thread safety: one owner thread.
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/engine.hpp"
#include "engine/core/prefix/disk_pages.hpp"
#include "engine/core/request/active_request.hpp"
#include "engine/core/request/prepare.hpp"
#include "engine/core/request/step_pacer.hpp"
#include "engine/core/request/step_runner.hpp"
#include "engine/core/scheduler/scheduler.hpp"
#include "schemas/base/clock.hpp"

namespace millrace::engine {

struct LoopOptions {
  SchedulerOptions scheduler;
  std::uint64_t step_target_us = 250'000;
  DiskPages* disk = nullptr;  // the same object as scheduler.store
  EngineFacts engine;         // copied into every result
};

class EngineLoop {
 public:
  // All references must outlive the loop.
  EngineLoop(const LoopOptions& options, const RequestContext& context, CachePools& pools,
             StepRunner& runner, const Clock& clock);
  // Waits for a step in flight, because the device still writes into its results.
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  Counters counters() const;
  // Any thread may call this while the owner thread uses the loop.
  Result<PreparedRequest> prepare(const GenerationRequest& request) const {
    return engine::prepare(request, context_);
  }
  Status add(RequestId id, PreparedRequest&& prepared, std::uint32_t priority);
  Status add(RequestId id, const GenerationRequest& request,
             std::uint32_t priority = limits::priority_default);
  void cancel(RequestId id);
  bool busy() const;
  bool holds(std::span<const TokenId> beginning) const { return scheduler_.holds(beginning); }
  Status step(std::vector<Event>& events);
  // Returns everything that a later step depends on, as text. Tests use it to show that a refused
  // call changes nothing.
  std::string dump() const;
  void on_begin(std::function<void(const std::vector<RequestId>&)> tell) {
    tell_begun_ = std::move(tell);
  }
  std::vector<PartialEvent> take_partials() { return std::exchange(partials_, {}); }

 private:
  struct Owner {
    RequestId request = 0;
    std::uint32_t sample = 0;
  };
  // A step with its results.
  struct Flight {
    PlannedStep planned;
    SampleBatch batch;
    std::int64_t started_us = 0;
    std::uint64_t transfers = 0;  // of DiskPages, enqueued before the step
    bool sampled = false;         // whether its sampling is enqueued
  };

  Status start_step(Flight& flight);
  Status sample(Flight& flight);
  bool waits_for_ids(const Flight& flight);
  Status complete(Flight& flight, std::vector<Event>& events);
  Status take_output(const PlannedOutput& output, const Sampled& sampled, std::int64_t now_us);
  void end_if_done(RequestId id, std::vector<Event>& events);
  void end(RequestId id, Event event, std::vector<Event>& events);
  void end_sequence(SequenceId id);
  Status fail_flight(const Flight& flight, const Error& error, std::vector<Event>& events);
  Status fail_behind(const Error& error, std::vector<Event>& events);
  DiskPages::Held held();
  void tell_fetched(const std::vector<DiskPages::Fetched>& fetched);
  ActiveRequest* owner_of(SequenceId id, Owner& owner);

  LoopOptions options_;
  RequestContext context_;
  StepRunner* runner_;
  const Clock* clock_;
  Scheduler scheduler_;
  StepPacer pacer_;
  std::map<RequestId, ActiveRequest> requests_;
  std::map<SequenceId, Owner> owners_;  // for sequences that the scheduler still has
  std::vector<RequestId> cancelled_;
  std::unique_ptr<Flight> in_flight_, spare_;
  std::vector<SampleTask> tasks_;
  std::vector<PartialEvent> partials_;
  std::function<void(const std::vector<RequestId>&)> tell_begun_;
  std::vector<RequestId> begun_;    // requests with their first row in the step that starts
  std::vector<RequestId> touched_;  // requests with an output in the completed step
  std::int64_t completed_us_ = 0;   // when the last step came back
  Counters counters_;
};

}  // namespace millrace::engine
