#include "engine/core/request/engine_loop.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <utility>

#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

Error fault_error(SampleFault fault, std::uint32_t position) {
  const std::string where = " for position " + std::to_string(position);
  if (fault == SampleFault::not_a_number) {
    return {Code::engine_failed, "the model computed a logit that is not a number" + where,
            "check the model file; try --math exact or another device"};
  }
  // The job itself rules out all tokens, so it fails like this on every engine.
  return {Code::invalid_value, "no token is left to draw" + where,
          "rule out fewer tokens with min_tokens, bad_words, allowed_token_ids and "
          "no_repeat_ngram_size"};
}

}  // namespace

EngineLoop::EngineLoop(const LoopOptions& options, const RequestContext& context, CachePools& pools,
                       StepRunner& runner, const Clock& clock)
    : options_(options),
      context_(context),
      runner_(&runner),
      clock_(&clock),
      scheduler_(options.scheduler, pools),
      pacer_(options.scheduler.least_prefill_tokens,
             options.scheduler.max_batch + options.scheduler.least_prefill_tokens + 64,
             options.scheduler.step_tokens, options.step_target_us) {}

EngineLoop::~EngineLoop() {
  if (in_flight_ && in_flight_->sampled) {
    const Status status = runner_->wait(in_flight_->batch);
    if (!status) log_warn("the engine's last step failed", status.error());
  }
  if (options_.disk != nullptr) options_.disk->flush(held());
}

DiskPages::Held EngineLoop::held() {
  return [this](std::span<const TokenId> tokens) { return scheduler_.held(tokens); };
}

void EngineLoop::tell_fetched(const std::vector<DiskPages::Fetched>& fetched) {
  for (const auto& [ticket, pages, state] : fetched) {
    counters_.disk_tokens += std::uint64_t{pages} * context_.pools->page_tokens();
    scheduler_.fetched(ticket, pages, state);
  }
}

Counters EngineLoop::counters() const {
  Counters out = counters_;
  out.waiting = scheduler_.waiting();
  out.running = scheduler_.running();
  out.pauses = scheduler_.pauses();
  out.kv_pages_used = context_.pools->in_use();
  out.prefix_pages = scheduler_.prefix_pages();
  out.prefix_held_tokens = out.prefix_pages * context_.pools->page_tokens();
  out.kv_pages_total = context_.pools->total();
  out.kv_tokens_used = context_.pools->tokens_in_use();
  out.kv_tokens_total = context_.pools->tokens();
  out.kv_bytes_used = context_.pools->bytes_in_use();
  out.kv_bytes_total = context_.pools->bytes();
  out.most_rows = options_.scheduler.max_batch;
  if (options_.disk != nullptr) out.disk_unwritten_bytes = options_.disk->unwritten_bytes();
  return out;
}

Status EngineLoop::add(RequestId id, const GenerationRequest& request, std::uint32_t priority) {
  MILLRACE_ASSIGN(PreparedRequest prepared, prepare(request));
  return add(id, std::move(prepared), priority);
}

Status EngineLoop::add(RequestId id, PreparedRequest&& prepared, std::uint32_t priority) {
  if (requests_.contains(id)) {
    return fail(Code::conflict, "request id " + std::to_string(id) + " is in use",
                "choose another id");
  }
  if (priority >= limits::priority_count) {
    return fail(Code::invalid_value, "priority is " + std::to_string(priority),
                "give 0 (served first) to " + std::to_string(limits::priority_count - 1));
  }
  const SequenceSpec spec{prepared.prompt, prepared.max_tokens, prepared.logprobs.prompt, priority,
                          prepared.checkpoints};
  const std::uint32_t siblings = prepared.n > 1 ? prepared.n - 1 : 0;
  const SequenceId first = scheduler_.add(spec, siblings);
  for (std::uint32_t sample = 0; sample <= siblings; ++sample) {
    owners_[first + sample] = {id, sample};
  }
  requests_.try_emplace(id, std::move(prepared), first, *context_.tokenizer,
                        clock_->monotonic_us());
  return {};
}

void EngineLoop::cancel(RequestId id) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  for (std::uint32_t i = 0; i < found->second.sequences(); ++i) {
    end_sequence(found->second.sequence_of(i));
  }
  if (std::find(cancelled_.begin(), cancelled_.end(), id) == cancelled_.end()) {
    cancelled_.push_back(id);
  }
}

bool EngineLoop::busy() const {
  return !requests_.empty() || in_flight_ != nullptr;
}

Status EngineLoop::step(std::vector<Event>& events) {
  for (const RequestId id : std::exchange(cancelled_, {})) {
    Event event;
    event.cancelled = true;
    end(id, std::move(event), events);
  }
  std::unique_ptr<Flight> next = spare_ ? std::move(spare_) : std::make_unique<Flight>();
  scheduler_.set_step_tokens(pacer_.tokens());
  // This comes before the plan. The plan may fetch a page from disk into memory that the new step
  // still copies from, so the page's write must be enqueued after the step.
  if (options_.disk != nullptr) {
    options_.disk->enqueue(held());
    next->transfers = options_.disk->enqueued();
  }
  const std::int64_t from_us = clock_->monotonic_us();
  const bool planned = scheduler_.plan(next->planned);
  counters_.planning_us += static_cast<std::uint64_t>(clock_->monotonic_us() - from_us);
  if (!planned) {
    spare_ = std::move(next);
    counters_.last_rows = counters_.last_tokens = 0;
  } else if (const Status started = start_step(*next); !started) {
    spare_ = std::move(next);
    return fail_flight(*spare_, started.error(), events);
  }
  // The loop reads the previous step's ids while the new step computes.
  std::unique_ptr<Flight> previous = std::exchange(in_flight_, std::move(next));
  if (previous) {
    const Status status = complete(*previous, events);
    spare_ = std::move(previous);  // the next step reuses its memory
    if (!status) return status;
  } else if (!in_flight_ && options_.disk != nullptr && options_.disk->fetching()) {
    tell_fetched(options_.disk->wait(held()));
  }
  if (!in_flight_ || in_flight_->sampled) return {};
  const Status sampled = sample(*in_flight_);
  if (sampled) return {};
  spare_ = std::move(in_flight_);
  return fail_flight(*spare_, sampled.error(), events);
}

Status EngineLoop::start_step(Flight& flight) {
  flight.started_us = clock_->monotonic_us();
  begun_.clear();
  for (const PlanRow& row : flight.planned.plan.rows) {
    Owner owner;
    ActiveRequest* request = owner_of(row.sequence, owner);
    if (!request->begun()) begun_.push_back(owner.request);
    if (request->started(flight.started_us, owner.sample, row.first_position)) {
      ++counters_.prefix_hits;
      counters_.prefix_tokens += row.first_position;
      if (owner.sample == 0) counters_.cached_tokens += row.first_position;
    }
    counters_.prompt_tokens += request->count_prompt(row.first_position + row.count);
  }
  ++counters_.steps;
  counters_.last_rows = static_cast<std::uint32_t>(flight.planned.plan.rows.size());
  counters_.last_tokens = static_cast<std::uint32_t>(flight.planned.plan.tokens.size());
  flight.sampled = false;
  if (tell_begun_ && !begun_.empty()) tell_begun_(begun_);
  MILLRACE_TRY(runner_->forward(flight.planned.plan));
  return waits_for_ids(flight) ? Status() : sample(flight);
}

bool EngineLoop::waits_for_ids(const Flight& flight) {
  return std::ranges::any_of(flight.planned.outputs, [&](const PlannedOutput& output) {
    Owner owner;
    return owner_of(output.sequence, owner)->decides();
  });
}

// The device computes the logits while the host packs the tasks.
Status EngineLoop::sample(Flight& flight) {
  tasks_.clear();
  for (const PlannedOutput& output : flight.planned.outputs) {
    Owner owner;
    const ActiveRequest* request = owner_of(output.sequence, owner);
    if (request != nullptr) {
      tasks_.push_back(request->task_for(owner.sample, output));
      continue;
    }
    // The sequence ended with the step before, and what its row draws is dropped.
    SampleTask& task = tasks_.emplace_back();
    task.slot = output.slot;
    task.sequence = output.sequence;
    task.sampling.temperature = 0;
  }
  MILLRACE_TRY(runner_->sample(tasks_, flight.batch));
  flight.sampled = true;
  return {};
}

Status EngineLoop::complete(Flight& flight, std::vector<Event>& events) {
  if (const Status status = runner_->wait(flight.batch); !status) {
    MILLRACE_TRY(fail_flight(flight, status.error(), events));
    return fail_behind(status.error(), events);
  }
  scheduler_.completed(flight.planned);
  if (options_.disk != nullptr) tell_fetched(options_.disk->complete(flight.transfers));
  const std::int64_t now = clock_->monotonic_us();
  const std::int64_t from = std::max(completed_us_, flight.started_us);
  completed_us_ = now;
  pacer_.took(static_cast<std::uint32_t>(flight.planned.plan.tokens.size()),
              static_cast<std::uint64_t>(std::max<std::int64_t>(0, now - from)));

  touched_.clear();
  for (std::size_t i = 0; i < flight.planned.outputs.size(); ++i) {
    const PlannedOutput& output = flight.planned.outputs[i];
    const auto owner = owners_.find(output.sequence);
    if (owner == owners_.end()) continue;  // the sequence ended while this step was in flight
    const RequestId id = owner->second.request;
    if (const Status status = take_output(output, flight.batch.row(i), now); !status) {
      Event event;
      event.error = status.error();
      end(id, std::move(event), events);
    }
    touched_.push_back(id);
  }
  for (const SequenceId sequence : flight.planned.computed) {
    Owner owner;
    ActiveRequest* request = owner_of(sequence, owner);
    if (request == nullptr) continue;
    request->prompt_computed();
    end_sequence(sequence);
    touched_.push_back(owner.request);
  }
  std::ranges::sort(touched_);
  const auto repeated = std::ranges::unique(touched_);
  touched_.erase(repeated.begin(), repeated.end());
  for (const RequestId id : touched_) end_if_done(id, events);
  return {};
}

Status EngineLoop::take_output(const PlannedOutput& output, const Sampled& sampled,
                               std::int64_t now_us) {
  if (sampled.fault != SampleFault::none) {
    return fail(fault_error(sampled.fault, output.position));
  }
  Owner owner;
  ActiveRequest* request = owner_of(output.sequence, owner);
  if (output.kind == OutputKind::prompt_logprob) {
    request->take_prompt_logprob(sampled);
    return {};
  }
  scheduler_.deliver(output.sequence, sampled.id);
  ++counters_.generated_tokens;
  if (const auto gap_us = request->token_gap_us(owner.sample, now_us)) {
    counters_.token_gaps.add(static_cast<double>(*gap_us) * 1e-6);
  }
  MILLRACE_ASSIGN(const bool ended, request->take_token(owner.sample, sampled, now_us));
  if (request->request().partials) {
    partials_.push_back({owner.request, request->take_partial(owner.sample)});
  }
  if (ended) end_sequence(output.sequence);
  return {};
}

void EngineLoop::end_if_done(RequestId id, std::vector<Event>& events) {
  const auto found = requests_.find(id);
  if (found == requests_.end() || !found->second.done()) return;
  end(id, Event(), events);
}

// Ends a request with an event, and adds the result unless the event carries an error.
void EngineLoop::end(RequestId id, Event event, std::vector<Event>& events) {
  const auto found = requests_.find(id);
  if (found == requests_.end()) return;
  ActiveRequest& request = found->second;
  for (std::uint32_t i = 0; i < request.sequences(); ++i) end_sequence(request.sequence_of(i));
  event.id = id;
  if (!event.error) {
    event.result = request.finish(clock_->monotonic_us());
    event.result.effective.engine = options_.engine;
  }
  requests_.erase(found);
  events.push_back(std::move(event));
}

// Works also while a step with a row of the sequence is in flight: the row's output is dropped.
void EngineLoop::end_sequence(SequenceId id) {
  if (owners_.erase(id) > 0) scheduler_.finish(id);
}

// Handles a step that failed: the requests with rows in it fail, the others go on. If the device no
// longer answers, all requests fail.
Status EngineLoop::fail_flight(const Flight& flight, const Error& error,
                               std::vector<Event>& events) {
  std::set<RequestId> hit;
  for (const PlanRow& row : flight.planned.plan.rows) {
    const auto owner = owners_.find(row.sequence);
    if (owner != owners_.end()) hit.insert(owner->second.request);
  }
  const Status alive = runner_->probe();
  if (!alive) {
    for (const auto& [id, request] : requests_) hit.insert(id);
  }
  for (const RequestId id : hit) {
    Event event;
    event.error = error;
    end(id, std::move(event), events);
  }
  return alive;
}

// The step that was enqueued after a failed one used that one's output, so it counts as failed,
// too.
Status EngineLoop::fail_behind(const Error& error, std::vector<Event>& events) {
  const std::unique_ptr<Flight> behind = std::move(in_flight_);
  if (!behind) return {};
  // The device may write to the batch until then.
  if (behind->sampled) static_cast<void>(runner_->wait(behind->batch));
  return fail_flight(*behind, error, events);
}

ActiveRequest* EngineLoop::owner_of(SequenceId id, Owner& owner) {
  const auto found = owners_.find(id);
  if (found == owners_.end()) return nullptr;
  owner = found->second;
  return &requests_.at(owner.request);
}

}  // namespace millrace::engine
