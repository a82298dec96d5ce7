#pragma once
// An executor around another one, which does everything. Those that observe what passes derive from
// it. Thread safety: that of Executor.
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "engine/worker/executor.hpp"

namespace millrace::worker {

class ExecutorAround : public Executor {
 public:
  explicit ExecutorAround(Executor& inner) : inner_(inner) {}  // which must outlive it

  const ExecutorInfo& info() const override { return inner_.info(); }
  void add(Task task) override { inner_.add(std::move(task)); }
  void cancel(LeaseId lease) override { inner_.cancel(lease); }
  std::vector<Ended> take_ends() override { return inner_.take_ends(); }
  std::vector<TaskPartial> take_partials() override { return inner_.take_partials(); }
  Progress progress() const override { return inner_.progress(); }
  ExecutorCounts counts() const override { return inner_.counts(); }
  std::vector<LeaseId> waiting() const override { return inner_.waiting(); }
  std::vector<LeaseId> take_begun() override { return inner_.take_begun(); }
  std::vector<std::uint64_t> prefixes() override { return inner_.prefixes(); }
  std::optional<Error> failure() const override { return inner_.failure(); }
  void on_change(std::function<void()> wake) override { inner_.on_change(std::move(wake)); }

 protected:
  Executor& inner() { return inner_; }
  const Executor& inner() const { return inner_; }

 private:
  Executor& inner_;
};

}  // namespace millrace::worker
