#include "engine/worker/engine_executor.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <utility>

#include "engine/worker/hung_device.hpp"
#include "schemas/base/log.hpp"

namespace millrace::worker {
namespace {

void append(Partial& to, Partial more) {
  to.tokens.insert(to.tokens.end(), more.tokens.begin(), more.tokens.end());
  to.text += more.text;
  to.reasoning += more.reasoning;
  std::move(more.tool_calls.begin(), more.tool_calls.end(), std::back_inserter(to.tool_calls));
}

// What the engine did since `before`.
ExecutorCounts counts_since(const engine::Counters& before, const engine::Counters& now) {
  ExecutorCounts out;
  out.cached_tokens = now.cached_tokens - before.cached_tokens;
  out.prompt_tokens = now.prompt_tokens - before.prompt_tokens + out.cached_tokens;
  out.generated_tokens = now.generated_tokens - before.generated_tokens;
  out.preemptions = now.pauses - before.pauses;
  if (now.kv_pages_total > 0) {
    out.kv_used = static_cast<double>(now.kv_pages_used) / static_cast<double>(now.kv_pages_total);
  }
  out.kv_used_tokens = now.kv_tokens_used;
  out.kv_pool_tokens = now.kv_tokens_total;
  out.kv_used_bytes = now.kv_bytes_used;
  out.kv_pool_bytes = now.kv_bytes_total;
  out.prefix_tokens = now.prefix_held_tokens;
  out.max_rows = now.most_rows;
  out.token_gaps = now.token_gaps.since(before.token_gaps);
  return out;
}

}  // namespace

EngineExecutor::EngineExecutor(std::unique_ptr<engine::Engine> engine, std::uint32_t capacity,
                               TestHooks hooks, std::uint32_t limit_ms)
    : hooks_(std::move(hooks)),
      limit_us_(std::int64_t{limit_ms} * 1'000),
      engine_(std::move(engine)),
      pool_(*engine_, PreparePool::default_threads(),
            [this](ReadyTask ready) { prepared(std::move(ready)); }) {
  info_.engine = engine_->info().profile;
  info_.capacity = capacity;
  warmed_up_ = engine_->counters();
  counts_ = counts_since(warmed_up_, warmed_up_);
  engine_->on_begin([this](const std::vector<engine::RequestId>& requests) { begin(requests); });
  thread_ = std::thread([this] { loop(); });
}

EngineExecutor::~EngineExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

bool EngineExecutor::stop(std::uint32_t timeout_ms) {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();
  return changed_.wait_for(lock, std::chrono::milliseconds(timeout_ms), [&] { return stopped_; });
}

void EngineExecutor::on_change(std::function<void()> wake) {
  const std::lock_guard lock(wake_mutex_);
  wake_ = std::move(wake);
}

void EngineExecutor::wake() {
  const std::lock_guard lock(wake_mutex_);
  if (wake_) wake_();
}

void EngineExecutor::add(Task task) {
  {
    const std::lock_guard lock(mutex_);
    preparing_.emplace(task.lease, false);
  }
  pool_.add(std::move(task));
}

void EngineExecutor::prepared(ReadyTask ready) {
  {
    const std::lock_guard lock(mutex_);
    const auto state = preparing_.extract(ready.task.lease);
    if (!state.empty() && state.mapped()) inbox_.cancelled.push_back(ready.task.lease);
    inbox_.ready.push_back(std::move(ready));
  }
  changed_.notify_all();
}

void EngineExecutor::cancel(LeaseId lease) {
  {
    const std::lock_guard lock(mutex_);
    const auto preparing = preparing_.find(lease);
    if (preparing != preparing_.end()) {
      preparing->second = true;  // the engine does not know it yet
      return;
    }
    inbox_.cancelled.push_back(lease);
  }
  changed_.notify_all();
}

std::vector<Ended> EngineExecutor::take_ends() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ends_, {});
}

std::vector<TaskPartial> EngineExecutor::take_partials() {
  const std::lock_guard lock(mutex_);
  std::vector<TaskPartial> out;
  for (auto& [key, partial] : partials_) out.push_back({key.first, std::move(partial)});
  partials_.clear();
  return out;
}

ExecutorCounts EngineExecutor::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::vector<LeaseId> EngineExecutor::waiting() const {
  const std::lock_guard lock(mutex_);
  return {waiting_.begin(), waiting_.end()};
}

std::vector<LeaseId> EngineExecutor::take_begun() {
  const std::lock_guard lock(mutex_);
  return std::exchange(begun_, {});
}

std::vector<std::uint64_t> EngineExecutor::prefixes() {
  const std::lock_guard lock(mutex_);
  prefixes_wanted_ = true;
  return prefixes_;
}

// Only steps change what the tree holds. Looking costs some page look-ups for each beginning, so it
// is done once for each heartbeat, and after the last step before a pause.
void EngineExecutor::tell_prefixes() {
  {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(prefixes_wanted_, false) && engine_->busy()) return;
  }
  std::vector<std::uint64_t> held = beginnings_.held(*engine_);
  const std::lock_guard lock(mutex_);
  prefixes_ = std::move(held);
}

// Called by the engine before the first step of these requests.
void EngineExecutor::begin(const std::vector<engine::RequestId>& requests) {
  {
    const std::lock_guard lock(mutex_);
    for (const LeaseId lease : requests) {
      if (waiting_.erase(lease) > 0) begun_.push_back(lease);
    }
  }
  wake();
}

std::optional<Error> EngineExecutor::failure() const {
  const std::lock_guard lock(mutex_);
  const std::int64_t began = step_began_us_;
  if (began != 0 && step_watch_.look(began, clock_.monotonic_us()) > limit_us_) {
    return hung_device(static_cast<std::uint32_t>(limit_us_ / 1'000'000));
  }
  return failure_;
}

bool EngineExecutor::next_inbox(Inbox& inbox) {
  std::unique_lock lock(mutex_);
  const bool idle = !engine_->busy();
  if (idle)
    changed_.wait(lock,
                  [&] { return stopping_ || !inbox_.ready.empty() || !inbox_.cancelled.empty(); });
  if (stopping_) return false;
  inbox = std::exchange(inbox_, {});
  return true;
}

void EngineExecutor::take_in(Inbox inbox, std::vector<Ended>& ends) {
  for (auto& [task, request] : inbox.ready) {
    if (request && *request) beginnings_.used(task.prefix, *engine_, **request);
    const Status added = request ? engine_->add(task.lease, *std::move(request), task.priority)
                                 : fail(request.error());
    if (!added) {
      ends.push_back(Ended{task.lease, added.error(), false, {}});
      continue;
    }
    {
      const std::lock_guard lock(mutex_);
      waiting_.insert(task.lease);
    }
    if (hooks_.aborts_on(task)) traps_.emplace(task.lease, Trap::abort);
    if (hooks_.hangs_on(task)) traps_.emplace(task.lease, Trap::hang);
  }
  for (const LeaseId lease : inbox.cancelled) engine_->cancel(lease);
}

void EngineExecutor::fire_hooks() {
  for (const auto& [lease, trap] : traps_) {
    log_warn("a test hook fires", {{"lease", lease}});
    if (trap == Trap::abort) std::abort();
    TestHooks::hang();
  }
}

void EngineExecutor::publish(std::vector<engine::Event> events, std::vector<Ended> ends,
                             std::vector<engine::PartialEvent> partials) {
  if (events.empty() && ends.empty() && partials.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    for (engine::PartialEvent& event : partials) {
      const auto [at, fresh] = partials_.try_emplace({event.id, event.partial.choice});
      if (fresh) {
        at->second = std::move(event.partial);
      } else {
        append(at->second, std::move(event.partial));
      }
    }
    for (Ended& ended : ends) ends_.push_back(std::move(ended));
    for (engine::Event& event : events) {
      traps_.erase(event.id);
      waiting_.erase(event.id);
      ends_.push_back(
          Ended{event.id, std::move(event.error), event.cancelled, std::move(event.result)});
    }
  }
  wake();
}

void EngineExecutor::give_up(Error error) {
  {
    const std::lock_guard lock(mutex_);
    failure_ = std::move(error);
  }
  wake();
}

// From this trace line a test that kills the process learns which step the kill has hit.
void EngineExecutor::count(const engine::Counters& counters) {
  steps_ = counters.steps;
  tokens_ = counters.prompt_tokens + counters.generated_tokens;
  rows_ = counters.last_rows;
  const ExecutorCounts now = counts_since(warmed_up_, counters);
  {
    const std::lock_guard lock(mutex_);
    counts_ = now;
  }
  if (!log_enabled(LogLevel::trace)) return;
  log(LogLevel::trace, "step under way",
      {{"step", counters.steps}, {"rows", counters.last_rows}, {"tokens", counters.last_tokens}});
}

void EngineExecutor::loop() {
  Inbox inbox;
  while (next_inbox(inbox)) {
    std::vector<engine::Event> events;
    std::vector<Ended> ends;
    take_in(std::exchange(inbox, {}), ends);
    Status stepped;
    if (engine_->busy()) {
      step_began_us_ = std::max<std::int64_t>(1, clock_.monotonic_us());
      fire_hooks();
      stepped = engine_->step(events);
      step_began_us_ = 0;
      count(engine_->counters());
      tell_prefixes();
    }
    // A lost device ends no job: leases that get no answer run again, here or on another engine.
    if (!stepped) std::erase_if(events, [](const engine::Event& event) { return event.error; });
    publish(std::move(events), std::move(ends), engine_->take_partials());
    if (!stepped) {
      give_up(stepped.error());
      break;
    }
  }
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

}  // namespace millrace::worker
