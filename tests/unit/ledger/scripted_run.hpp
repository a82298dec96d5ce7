#pragma once
// A run of operations of every kind on a ledger on a simulated disk, beside a ledger in memory that
// tells which state each commit must leave. Thread safety: one thread.
#include <algorithm>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/ledger/crash_inspection.hpp"

namespace millrace::broker::test {

class ScriptedRun {
 public:
  static constexpr int steps = 100;
  static constexpr std::uint32_t most_bytes = 6'000;
  // Puts a ledger with a defect in front of a sound one; then replies are not compared.
  using Wrap = std::function<std::unique_ptr<Ledger>(std::unique_ptr<Ledger>)>;

  explicit ScriptedRun(std::uint64_t seed, DurabilitySettings settings = {}, Wrap wrap = {})
      : script_(seed, most_bytes), settings_(std::move(settings)), wrap_(std::move(wrap)) {
    told_.before = told_.after = ledger_text(*model_);
  }

  // Goes to the end, or until `over`. The error is the one that ended the ledger.
  Status go(const std::function<bool()>& over = [] { return false; }) {
    MILLRACE_ASSIGN(ledger_, open_on(disk_, clock_, settings_));
    told_.epoch = epoch_of(*ledger_);
    if (wrap_) ledger_ = wrap_(std::move(ledger_));
    for (const auto& operations : all_steps()) {
      if (over()) return {};
      MILLRACE_TRY(step(operations));
    }
    return {};
  }
  void close() { ledger_.reset(); }
  Ledger& ledger() { return *ledger_; }

  PowerCutDisk& disk() { return disk_; }
  const Told& told() const { return told_; }
  const RandomOperations& script() const { return script_; }
  std::uint64_t commits() const { return commits_; }
  const std::set<std::size_t>& kinds() const { return kinds_; }  // of which one has succeeded

 private:
  std::vector<std::vector<Operation>> all_steps() {
    std::vector<std::vector<Operation>> out;
    for (int i = 0; i < steps; ++i) {
      times_us_.push_back(script_.now());
      out.push_back(script_.batch_of_operations());
      script_.step();
    }
    out.push_back({MoveCursor{tenant, "results", "reader", 1}, ListCursors{tenant, "results"},
                   RemoveCursor{tenant, "results", "reader"}, TrimStream{tenant, "results", 2},
                   GetStream{tenant, "results"}, KeepStream{tenant, "second", {}},
                   Append{tenant, "second", "j1", Body(std::size_t{20} * most_bytes, 'a')},
                   GetJob{tenant, "j1"}, ListTenants{}, ListStreams{tenant, ""}, Count{tenant, ""},
                   FindLapsed{0, {}, true}, ListJobs{tenant, {}}, ListBatches{tenant, {}},
                   StartJobs{tenant}, DropJobs{tenant, {"j1"}, ""}, Pause{tenant, "", "rare"},
                   Resume{tenant, "", "rare"}});
    for (const std::string& batch : RandomOperations::batches()) {
      out.push_back({UpdateBatch{tenant, {batch, false, {}}}});
    }
    // Then nearly everything goes, and the file shrinks.
    for (const std::string& who : RandomOperations::tenants()) {
      out.push_back({RemoveStream{who, "results"}, RemoveStream{who, "second"},
                     RemoveStream{who, batches_stream}});
    }
    Retain retain;
    retain.policy.job_age_us = 1;
    out.insert(out.end(), 12, {retain});
    times_us_.resize(out.size(), script_.now());
    return out;
  }

  Status step(const std::vector<Operation>& operations) {
    const std::int64_t now_us = times_us_[commits_];
    const auto expected = *model_->apply(operations, now_us);
    told_.after = ledger_text(*model_);
    MILLRACE_ASSIGN(const auto replies, ledger_->apply(operations, now_us));
    told_.before = told_.after;
    for (std::size_t i = 0; i < operations.size(); ++i) {
      if (!wrap_ && print(replies[i]) != print(expected[i])) {
        return fail(Code::internal,
                    "'" + print(replies[i]) + "' in place of '" + print(expected[i]) + "'");
      }
      if (expected[i]) note(operations[i], *expected[i]);
    }
    // Now and then the ledger has time to rest.
    clock_.advance_us(++commits_ % 8 == 0 ? 1'000'000 : 1'000);
    return ledger_->idle();
  }

  void note(const Operation& operation, const Reply& reply) {
    kinds_.insert(operation.index());
    if (const auto* got = std::get_if<ClaimReply>(&reply)) {
      for (const auto& job : got->jobs) told_.last_lease = std::max(told_.last_lease, job.lease);
    }
  }

  RandomOperations script_;
  const DurabilitySettings settings_;
  const Wrap wrap_;
  PowerCutDisk disk_;
  ManualClock clock_;
  std::unique_ptr<Ledger> ledger_;  // goes before its disk
  std::unique_ptr<Ledger> model_ = make_memory_ledger(make_memory_store({publish, ""}));
  Told told_;
  std::vector<std::int64_t> times_us_;
  std::uint64_t commits_ = 0;
  std::set<std::size_t> kinds_;
};

}  // namespace millrace::broker::test
