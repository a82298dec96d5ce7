#pragma once
// An executor that the test drives: it records its tasks and ends those that the test names.
#include <algorithm>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "engine/worker/executor.hpp"
#include "schemas/codec.hpp"

namespace millrace::worker {

class FakeExecutor final : public Executor {
 public:
  explicit FakeExecutor(std::uint32_t capacity = 8) {
    info_.engine.facts.model = "tiny";
    info_.engine.facts.fingerprint = "f00d";
    info_.engine.kv_policies = {"f16"};
    info_.engine.facts.context_tokens = 100;
    info_.capacity = capacity;
  }

  const ExecutorInfo& info() const override { return info_; }
  void add(Task task) override {
    const std::lock_guard lock(mutex_);
    if (answer_at_once_) end_locked(task.lease);
    added_.push_back(std::move(task));
    if (answer_at_once_) {
      const std::lock_guard wake_lock(wake_mutex_);
      if (wake_) wake_();
    }
  }
  void cancel(LeaseId lease) override {
    const std::lock_guard lock(mutex_);
    cancelled.push_back(lease);
  }
  std::vector<Ended> take_ends() override {
    const std::lock_guard lock(mutex_);
    return std::exchange(ends_, {});
  }
  std::vector<TaskPartial> take_partials() override { return std::exchange(partials, {}); }
  Progress progress() const override { return now; }
  ExecutorCounts counts() const override { return counted; }
  std::vector<LeaseId> waiting() const override { return waits; }
  std::vector<LeaseId> take_begun() override { return std::exchange(begun, {}); }
  std::vector<std::uint64_t> prefixes() override { return known; }
  std::optional<Error> failure() const override { return failed; }
  void on_change(std::function<void()> wake) override {
    const std::lock_guard lock(wake_mutex_);
    wake_ = std::move(wake);
  }

  void end(LeaseId lease, bool was_cancelled = false) {
    const std::lock_guard lock(mutex_);
    end_locked(lease, was_cancelled);
  }
  void end(LeaseId lease, Error error) {
    const std::lock_guard lock(mutex_);
    ends_.push_back(Ended{lease, std::move(error), false, {}});
  }
  void answer_at_once() { answer_at_once_ = true; }
  std::vector<LeaseId> started() {
    const std::lock_guard lock(mutex_);
    std::vector<LeaseId> out;
    for (const Task& task : added_) out.push_back(task.lease);
    return out;
  }
  Task task(std::size_t i) {
    const std::lock_guard lock(mutex_);
    return added_.at(i);
  }

  std::vector<LeaseId> cancelled;
  std::vector<TaskPartial> partials;
  std::vector<LeaseId> waits, begun;
  std::vector<std::uint64_t> known;
  Progress now;
  ExecutorCounts counted;
  std::optional<Error> failed;

 private:
  void end_locked(LeaseId lease, bool was_cancelled = false) {
    Ended ended;
    ended.lease = lease;
    ended.cancelled = was_cancelled;
    Choice choice;
    choice.text = "answer " + std::to_string(lease);
    choice.tokens = {7};
    choice.finish_reason = was_cancelled ? FinishReason::cancelled : FinishReason::stop;
    ended.result.choices.push_back(std::move(choice));
    ends_.push_back(std::move(ended));
  }

  ExecutorInfo info_;
  std::mutex mutex_;
  std::vector<Task> added_;
  std::vector<Ended> ends_;
  std::mutex wake_mutex_;
  std::function<void()> wake_;
  bool answer_at_once_ = false;
};

inline Lease make_lease(LeaseId lease, const std::string& custom_id = "c", bool alone = false) {
  Job job;
  job.custom_id = custom_id;
  job.request.prompt = std::string("prompt of ") + custom_id;
  job.metadata = {{"k", "v"}};
  job.priority = 1;
  Lease out;
  out.lease = lease;
  out.job = "job-" + std::to_string(lease);
  out.attempt = 3;
  out.alone = alone;
  out.submitted_us = 77;
  out.body = encode_job(job);
  return out;
}

}  // namespace millrace::worker
