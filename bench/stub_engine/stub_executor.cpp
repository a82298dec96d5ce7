#include "bench/stub_engine/stub_executor.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <numeric>
#include <utility>

namespace millrace::worker {

StubExecutor::StubExecutor(StubOptions options, TestHooks hooks)
    : options_(std::move(options)), hooks_(std::move(hooks)) {
  info_.engine.facts.model = options_.model;
  info_.engine.facts.fingerprint = "stub";
  info_.engine.facts.math = "exact";
  info_.engine.facts.kv = info_.engine.facts.kv_policy = "f16";
  info_.engine.facts.context_tokens = 2048;
  info_.engine.kv_policies = {"f16"};
  info_.capacity = options_.capacity;
  thread_ = std::thread([this] { loop(); });
}

StubExecutor::~StubExecutor() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void StubExecutor::on_change(std::function<void()> wake) {
  const std::lock_guard lock(wake_mutex_);
  wake_ = std::move(wake);
}

void StubExecutor::wake() {
  const std::lock_guard lock(wake_mutex_);
  if (wake_) wake_();
}

void StubExecutor::add(Task task) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(
        Job{std::move(task), options_.job_steps, false, false, clock_.monotonic_us(), 0});
  }
  changed_.notify_all();
}

void StubExecutor::cancel(LeaseId lease) {
  const std::lock_guard lock(mutex_);
  for (Job& job : jobs_) job.cancelled = job.cancelled || job.task.lease == lease;
}

std::vector<Ended> StubExecutor::take_ends() {
  const std::lock_guard lock(mutex_);
  return std::exchange(ends_, {});
}

// It has room for each row's whole context, and counts what an engine would hold for the jobs that
// have begun. It keeps no prefixes.
ExecutorCounts StubExecutor::counts() const {
  const std::lock_guard lock(mutex_);
  ExecutorCounts out = counts_;
  out.max_rows = options_.rows == 0 ? options_.capacity : options_.rows;
  out.kv_pool_tokens = std::uint64_t{out.max_rows} * info_.engine.facts.context_tokens;
  for (const Job& job : jobs_) {
    if (!job.begun) continue;
    const std::uint64_t steps = options_.job_steps - job.steps_left;
    out.kv_used_tokens += 1 + steps * tokens().size() / options_.job_steps * job.task.request.n;
  }
  if (out.kv_pool_tokens > 0) {
    out.kv_used = static_cast<double>(out.kv_used_tokens) / static_cast<double>(out.kv_pool_tokens);
  }
  return out;
}

std::vector<TaskPartial> StubExecutor::take_partials() {
  const std::lock_guard lock(mutex_);
  std::vector<TaskPartial> out;
  for (auto& [place, partial] : partials_) out.push_back({place.first, std::move(partial)});
  partials_.clear();
  return out;
}

// One for each step, and at least three.
Tokens StubExecutor::tokens() const {
  Tokens all(std::max(3u, options_.job_steps));
  std::iota(all.begin(), all.end(), 1u);
  return all;
}

// The piece of the text that belongs to the job's last step.
void StubExecutor::add_partials(const Job& job) {
  if (!job.task.request.partials || job.cancelled) return;
  const Tokens all = tokens();
  const auto piece = [&](std::size_t size) {
    const std::uint64_t step = options_.job_steps - job.steps_left;  // from 1
    return std::pair((step - 1) * size / options_.job_steps, step * size / options_.job_steps);
  };
  const auto [first, end] = piece(options_.text.size());
  const auto [first_token, end_token] = piece(all.size());
  for (std::uint32_t i = 0; i < job.task.request.n; ++i) {
    const auto [at, fresh] = partials_.try_emplace({job.task.lease, i});
    Partial& partial = at->second;
    if (fresh) {
      partial.choice = i;
      partial.first_token = static_cast<std::uint32_t>(first_token);
    }
    partial.text.append(options_.text, first, end - first);
    for (std::size_t token = first_token; token < end_token; ++token) {
      partial.tokens.push_back(all[token]);
    }
    const auto [first_call, end_call] = piece(options_.tool_calls.size());
    for (std::size_t call = first_call; call < end_call; ++call) {
      partial.tool_calls.push_back(options_.tool_calls[call]);
    }
  }
}

std::vector<LeaseId> StubExecutor::waiting() const {
  const std::lock_guard lock(mutex_);
  std::vector<LeaseId> out;
  for (const Job& job : jobs_) {
    if (!job.begun) out.push_back(job.task.lease);
  }
  return out;
}

std::vector<LeaseId> StubExecutor::take_begun() {
  const std::lock_guard lock(mutex_);
  return std::exchange(begun_, {});
}

std::size_t StubExecutor::rows() const {
  return options_.rows == 0 ? jobs_.size() : std::min<std::size_t>(options_.rows, jobs_.size());
}

void StubExecutor::begin(std::unique_lock<std::mutex>& lock) {
  for (std::size_t i = 0; i < rows(); ++i) {
    if (std::exchange(jobs_[i].begun, true)) continue;
    jobs_[i].begun_us = clock_.monotonic_us();
    begun_.push_back(jobs_[i].task.lease);
  }
  if (begun_.empty()) return;
  lock.unlock();
  wake();
  lock.lock();
}

Ended StubExecutor::answer(const Job& job) const {
  const GenerationRequest& request = job.task.request;
  Ended ended;
  ended.lease = job.task.lease;
  ended.cancelled = job.cancelled;
  GenerationResult& result = ended.result;
  result.usage.prompt_tokens = 1;
  const std::int64_t now_us = clock_.monotonic_us();
  const std::int64_t begun_us = job.begun ? job.begun_us : now_us;
  result.times.queue_us = static_cast<std::uint64_t>(begun_us - job.added_us);
  result.times.total_us = static_cast<std::uint64_t>(now_us - job.added_us);
  result.effective.engine = info_.engine.facts;
  result.effective.sampling = request.sampling;
  result.effective.max_tokens = request.max_tokens.value_or(16);
  if (request.task != millrace::Task::generate) return ended;
  for (std::uint32_t i = 0; i < request.n; ++i) {
    Choice choice;
    choice.index = i;
    choice.text = options_.text;
    choice.tokens = tokens();
    choice.tool_calls = options_.tool_calls;
    choice.finish_reason = job.cancelled ? FinishReason::cancelled : FinishReason::stop;
    result.choices.push_back(std::move(choice));
  }
  result.usage.completion_tokens = static_cast<std::uint32_t>(tokens().size()) * request.n;
  result.times.first_token_us = result.times.total_us;
  return ended;
}

void StubExecutor::fire_hooks(std::unique_lock<std::mutex>& lock) {
  for (std::size_t i = 0; i < rows(); ++i) {
    const bool aborts = hooks_.aborts_on(jobs_[i].task), hangs = hooks_.hangs_on(jobs_[i].task);
    if (!aborts && !hangs) continue;
    lock.unlock();  // the link goes on, as it does while a real step hangs or faults
    if (aborts) std::abort();
    TestHooks::hang();
  }
}

void StubExecutor::step() {
  for (Job& job : jobs_) {
    if (!job.begun && !job.cancelled) continue;
    job.steps_left -= std::min(job.steps_left, 1u);
    ++tokens_;
    add_partials(job);
    if (job.steps_left > 0 && !job.cancelled) continue;
    ends_.push_back(answer(job));
    counts_.prompt_tokens += ends_.back().result.usage.prompt_tokens;
    counts_.generated_tokens += ends_.back().result.usage.completion_tokens;
  }
  std::erase_if(jobs_, [](const Job& job) { return job.steps_left == 0 || job.cancelled; });
  ++steps_;
}

void StubExecutor::loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    begin(lock);
    rows_ = static_cast<std::uint32_t>(rows());
    fire_hooks(lock);
    if (options_.step_ms > 0) {
      const auto step_time = std::chrono::milliseconds(options_.step_ms);
      if (changed_.wait_for(lock, step_time, [&] { return stopping_; })) return;
    }
    step();
    if (jobs_.empty()) rows_ = 0;
    const bool changed = !ends_.empty() || !partials_.empty();
    lock.unlock();
    if (changed) wake();
    lock.lock();
  }
}

}  // namespace millrace::worker
