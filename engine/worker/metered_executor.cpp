#include "engine/worker/metered_executor.hpp"

#include <algorithm>

#include "engine/worker/engine_metric_names.hpp"
#include "schemas/codec.hpp"

namespace millrace::worker {
namespace {

double seconds(std::uint64_t us) {
  return static_cast<double>(us) * 1e-6;
}

}  // namespace

MeteredExecutor::MeteredExecutor(Executor& inner)
    : ExecutorAround(inner),
      first_token_(metric::first_token_bounds),
      latency_(metric::request_bounds),
      queue_time_(metric::request_bounds) {}

void MeteredExecutor::add(Task task) {
  {
    const std::lock_guard lock(mutex_);
    held_.emplace(task.lease, false);
  }
  ExecutorAround::add(std::move(task));
}

std::vector<LeaseId> MeteredExecutor::take_begun() {
  std::vector<LeaseId> begun = ExecutorAround::take_begun();
  const std::lock_guard lock(mutex_);
  for (const LeaseId lease : begun) {
    if (const auto held = held_.find(lease); held != held_.end()) held->second = true;
  }
  return begun;
}

std::vector<Ended> MeteredExecutor::take_ends() {
  std::vector<Ended> ends = ExecutorAround::take_ends();
  const std::lock_guard lock(mutex_);
  for (const Ended& ended : ends) count(ended);
  return ends;
}

void MeteredExecutor::count(const Ended& ended) {
  held_.erase(ended.lease);
  if (ended.error) {
    ++errors_[ended.error->code];
    return;
  }
  const GenerationResult& result = ended.result;
  for (const Choice& choice : result.choices) {
    ++reasons_[std::string(wire_name(choice.finish_reason))];
  }
  if (result.choices.empty()) ++reasons_[ended.cancelled ? "cancelled" : "scored"];
  latency_.add(seconds(result.times.total_us));
  queue_time_.add(seconds(result.times.queue_us));
  if (result.times.first_token_us > 0) first_token_.add(seconds(result.times.first_token_us));
}

std::string MeteredExecutor::page() const {
  const std::string& model = info().engine.facts.model;
  const ExecutorCounts counts = inner().counts();
  metrics::Page page(metric::all);
  page.add(metric::kv_usage, {model}, counts.kv_used);
  page.add(metric::prompt_tokens, {model}, counts.prompt_tokens);
  page.add(metric::generation_tokens, {model}, counts.generated_tokens);
  page.add(metric::prefix_queries, {model}, counts.prompt_tokens);
  page.add(metric::prefix_hits, {model}, counts.cached_tokens);
  page.add(metric::preemptions, {model}, counts.preemptions);
  page.add(metric::steps, {model}, progress().steps);
  page.add(metric::token_gap, {model}, metrics::shown(counts.token_gaps));
  page.add(metric::spans_sent, {model}, counts.spans_sent);
  page.add(metric::spans_dropped, {model}, counts.spans_dropped);
  const std::lock_guard lock(mutex_);
  const auto running = static_cast<std::uint64_t>(
      std::ranges::count_if(held_, [](const auto& held) { return held.second; }));
  page.add(metric::running, {model}, running);
  page.add(metric::waiting, {model}, held_.size() - running);
  for (const auto& [reason, texts] : reasons_) page.add(metric::success, {model, reason}, texts);
  for (const auto& [code, jobs] : errors_) {
    page.add(metric::failure, {model, std::string(code_name(code))}, jobs);
  }
  page.add(metric::first_token, {model}, metrics::shown(first_token_));
  page.add(metric::latency, {model}, metrics::shown(latency_));
  page.add(metric::queue_time, {model}, metrics::shown(queue_time_));
  return page.text();
}

}  // namespace millrace::worker
