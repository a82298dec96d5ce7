#pragma once
// The engine without its device: accepts requests, plans steps, hands out what was drawn, ends
// requests. Step t+1 is started before step t's ids are read. Engine::create puts it together with
// a model; tests put it together with a runner that fails. Thread safety: one owner thread.
#include <cstdint>
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
  DiskPages* disk = nullptr;  // also the scheduler's store
  EngineFacts engine;         // of every result
};

class EngineLoop {
 public:
  // All references must outlive the loop.
  EngineLoop(const LoopOptions& options, const RequestContext& context, PagePool& pool,
             StepRunner& runner, const Clock& clock);
  // Waits for a step that is under way: the device still writes into its results.
  ~EngineLoop();
  EngineLoop(const EngineLoop&) = delete;
  EngineLoop& operator=(const EngineLoop&) = delete;

  Counters counters() const;
  Status add(RequestId id, const GenerationRequest& request,
             std::uint32_t priority = limits::priority_default);
  void cancel(RequestId id);
  bool busy() const;
  Status step(std::vector<Event>& events);
  // Everything that a later step depends on, as text, for tests of what a refused call leaves
  // behind.
  std::string dump() const;
  std::vector<PartialEvent> take_partials() { return std::exchange(partials_, {}); }

 private:
  struct Owner {
    RequestId request = 0;
    std::uint32_t sample = 0;
  };
  struct Flight {
    PlannedStep planned;
    SampleBatch batch;
    std::int64_t started_us = 0;
    std::uint64_t transfers = 0;  // enqueued before it, of DiskPages
  };

  Status start_step(Flight& flight);
  Status land(Flight& flight, std::vector<Event>& events);
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
  std::map<SequenceId, Owner> owners_;  // of sequences that the scheduler still has
  std::vector<RequestId> cancelled_;
  std::unique_ptr<Flight> flying_, spare_;
  std::vector<SampleTask> tasks_;
  std::vector<PartialEvent> partials_;
  std::vector<RequestId> touched_;  // by the step that lands
  std::int64_t landed_us_ = 0;
  Counters counters_;
};

}  // namespace millrace::engine
