// What an executor's page of metrics shows.
#include "engine/worker/metered_executor.hpp"

#include <gtest/gtest.h>

#include "engine/worker/engine_metric_names.hpp"

namespace millrace::worker {
namespace {

// Ends and begins what the test names.
class Scripted final : public Executor {
 public:
  Scripted() { info_.engine.facts.model = "m"; }
  const ExecutorInfo& info() const override { return info_; }
  void add(Task) override {}
  void cancel(LeaseId) override {}
  std::vector<Ended> take_ends() override { return std::exchange(ends, {}); }
  Progress progress() const override { return {7, 9}; }
  ExecutorCounts counts() const override { return counted; }
  std::vector<LeaseId> take_begun() override { return std::exchange(begun, {}); }
  std::optional<Error> failure() const override { return {}; }
  void on_change(std::function<void()>) override {}

  std::vector<Ended> ends;
  std::vector<LeaseId> begun;
  ExecutorCounts counted;

 private:
  ExecutorInfo info_;
};

Task task(LeaseId lease) {
  Task out;
  out.lease = lease;
  return out;
}

Ended ended(LeaseId lease, const std::vector<FinishReason>& reasons) {
  Ended out;
  out.lease = lease;
  for (const FinishReason reason : reasons) {
    out.result.choices.emplace_back().finish_reason = reason;
  }
  out.result.times = {400'000, 550'000, 2'000'000};
  return out;
}

bool has(const std::string& page, const std::string& line) {
  return page.find("\n" + line + "\n") != std::string::npos;
}

TEST(MeteredExecutor, ShowsJobsThatWaitAndRun) {
  Scripted inner;
  MeteredExecutor metered(inner);
  for (const LeaseId lease : {1, 2, 3}) metered.add(task(lease));
  inner.begun = {1, 2};
  EXPECT_EQ(metered.take_begun(), (std::vector<LeaseId>{1, 2}));
  inner.ends = {ended(1, {FinishReason::stop})};
  EXPECT_EQ(metered.take_ends().size(), 1u);
  inner.begun = {1};  // told late: it has ended
  metered.take_begun();
  const std::string page = metered.page();
  EXPECT_TRUE(has(page, "millrace_num_requests_running{model_name=\"m\"} 1")) << page;
  EXPECT_TRUE(has(page, "millrace_num_requests_waiting{model_name=\"m\"} 1")) << page;
}

TEST(MeteredExecutor, CountsEndsByTheirReasonAndTimes) {
  Scripted inner;
  MeteredExecutor metered(inner);
  Ended failed;
  failed.error = Error{Code::context_exceeded, "too long", {}};
  inner.ends = {ended(1, {FinishReason::stop, FinishReason::length}), ended(2, {}), failed};
  metered.take_ends();
  const std::string page = metered.page();
  for (const char* const line : {
           "millrace_request_success_total{model_name=\"m\",finished_reason=\"stop\"} 1",
           "millrace_request_success_total{model_name=\"m\",finished_reason=\"length\"} 1",
           "millrace_request_success_total{model_name=\"m\",finished_reason=\"scored\"} 1",
           "millrace_request_failure_total{model_name=\"m\",reason=\"context_exceeded\"} 1",
           "millrace_e2e_request_latency_seconds_count{model_name=\"m\"} 2",
           "millrace_e2e_request_latency_seconds_bucket{model_name=\"m\",le=\"1.5\"} 0",
           "millrace_e2e_request_latency_seconds_bucket{model_name=\"m\",le=\"2\"} 2",
           "millrace_request_queue_time_seconds_bucket{model_name=\"m\",le=\"0.3\"} 0",
           "millrace_request_queue_time_seconds_bucket{model_name=\"m\",le=\"0.5\"} 2",
           "millrace_time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.5\"} 0",
           "millrace_time_to_first_token_seconds_bucket{model_name=\"m\",le=\"0.75\"} 2",
       }) {
    EXPECT_TRUE(has(page, line)) << line << page;
  }
}

TEST(MeteredExecutor, ShowsWhatTheEngineCounts) {
  Scripted inner;
  inner.counted.prompt_tokens = 100;
  inner.counted.cached_tokens = 40;
  inner.counted.generated_tokens = 30;
  inner.counted.preemptions = 2;
  inner.counted.kv_used = 0.25;
  static constexpr double bounds[] = {0.5};
  inner.counted.token_gaps = Histogram(bounds);
  inner.counted.token_gaps.add(0.5, 3);
  const std::string page = MeteredExecutor(inner).page();
  for (const char* const line : {
           "millrace_prompt_tokens_total{model_name=\"m\"} 100",
           "millrace_prefix_cache_queries_total{model_name=\"m\"} 100",
           "millrace_prefix_cache_hits_total{model_name=\"m\"} 40",
           "millrace_generation_tokens_total{model_name=\"m\"} 30",
           "millrace_num_preemptions_total{model_name=\"m\"} 2",
           "millrace_kv_cache_usage_perc{model_name=\"m\"} 0.25",
           "millrace_engine_steps_total{model_name=\"m\"} 7",
           "millrace_inter_token_latency_seconds_bucket{model_name=\"m\",le=\"0.5\"} 3",
           "millrace_inter_token_latency_seconds_sum{model_name=\"m\"} 1.5",
       }) {
    EXPECT_TRUE(has(page, line)) << line << page;
  }
  for (const metrics::Metric* const metric : metric::all) {
    EXPECT_TRUE(has(page, std::string("# TYPE ") + metric->name + " " +
                              std::string(metrics::kind_name(metric->kind))))
        << metric->name;
  }
}

TEST(Histogram, TellsWhatCameAfterACopy) {
  static constexpr double bounds[] = {1, 2};
  Histogram all(bounds);
  all.add(1);
  const Histogram before = all;
  all.add(2);
  all.add(3, 2);
  const Histogram after = all.since(before);
  EXPECT_EQ(after.counts(), (std::vector<std::uint64_t>{0, 1, 2}));
  EXPECT_EQ(after.count(), 3u);
  EXPECT_EQ(after.sum(), 8);
}

}  // namespace
}  // namespace millrace::worker
