// The power fails at 200 points of a scripted run. Everything acknowledged before, every job and
// every announced number, must be there when the ledger is opened again. The test must notice two
// planted defects: a lowered `synchronous`, and an acknowledgement before its commit.
#include <map>
#include <random>
#include <set>

#include "broker/ledger/sqlite_testing.hpp"
#include "tests/unit/ledger/harness.hpp"
#include "tests/unit/ledger/power_cut_disk.hpp"

namespace millrace::broker::test {
namespace {

constexpr int cut_points = 200;
constexpr int script_steps = 45;

enum class Planted { nothing, synchronous_normal, synchronous_off, early_acknowledgement };

Result<std::unique_ptr<Ledger>> open_on(PowerCutDisk& disk, Planted planted) {
  SqliteLedgerOptions options;
  options.publish = publish;
  options.ballast_bytes = 0;
  options.env = &disk.env();
  options.vfs = disk.vfs_name();
  options.checkpoint_pages = 24;  // small, so that the script has checkpoints of both kinds
  options.wal_bytes = 160 * limits::KiB;
  DurabilitySettings settings;
  if (planted == Planted::synchronous_normal) settings.synchronous = "NORMAL";
  if (planted == Planted::synchronous_off) settings.synchronous = "OFF";
  return open_weakened_sqlite_ledger("ledger", std::move(options), settings);
}

// The planted defect: answers at once, from memory, and commits with the next call.
class HastyLedger final : public Ledger {
 public:
  explicit HastyLedger(std::unique_ptr<Ledger> real)
      : real_(std::move(real)), memory_(make_memory_ledger(make_memory_store({publish, ""}))) {}

  Result<std::vector<Result<Reply>>> apply(std::span<const Operation> operations,
                                           std::int64_t now_us) override {
    if (!waiting_.empty()) {
      if (auto late = real_->apply(waiting_, now_us); !late) return late;
    }
    waiting_.assign(operations.begin(), operations.end());
    return memory_->apply(operations, now_us);
  }
  Status idle() override { return real_->idle(); }

 private:
  std::unique_ptr<Ledger> real_, memory_;
  std::vector<Operation> waiting_;
};

// Everything that the ledger acknowledged.
struct Told {
  std::set<std::string> tried, submitted;
  std::map<std::uint64_t, std::pair<std::string, Body>> ends;  // number: job and result
  std::map<std::string, std::uint32_t> attempts;
  std::set<std::string> cancelled;
  std::uint64_t high = 0, cursor = 0;
  LeaseId last_lease = 0;
};

// The scripted run, the same each time up to the point where the power fails.
class Script {
 public:
  explicit Script(std::unique_ptr<Ledger> ledger) : ledger_(std::move(ledger)) {}

  const Told& run() {
    for (int step = 0; step < script_steps; ++step) {
      const std::vector<Operation> operations = next_operations();
      const auto replies = ledger_->apply(operations, start_us + step);
      if (!replies) break;
      for (std::size_t i = 0; i < operations.size(); ++i) note(operations[i], (*replies)[i]);
      if (!ledger_->idle()) break;
    }
    return told_;
  }

 private:
  std::vector<Operation> next_operations() {
    std::vector<Operation> out;
    for (std::uint64_t i = 0, n = random_() % 5; i < n; ++i) {
      SubmitJob op = job(numbered("job-", told_.tried.size()), "batch");
      op.body.append(random_() % 6000, 'b');
      told_.tried.insert(op.id);
      out.emplace_back(op);
    }
    for (int i = 0; i < 3 && !held_.empty() && random_() % 4 != 0; ++i) {
      const ClaimedJob done = held_.back();
      held_.pop_back();
      Body body = numbered("result of " + done.job, done.lease);
      body.append(random_() % 9000, 'r');
      const auto state = random_() % 5 == 0 ? JobState::failed : JobState::completed;
      out.emplace_back(Finish{done.lease, state, std::move(body), "engine"});
    }
    if (!held_.empty() && random_() % 5 == 0) {
      out.emplace_back(GiveBack{{held_.back().lease}, Blame::none, "engine"});
      held_.pop_back();
    }
    if (random_() % 6 == 0 && !told_.tried.empty()) {
      out.emplace_back(CancelJobs{tenant, {numbered("job-", random_() % told_.tried.size())}, ""});
    }
    if (random_() % 5 == 0) out.emplace_back(RetryJobs{tenant, {}, "batch"});
    if (told_.high > 0) out.emplace_back(MoveCursor{tenant, "results", "reader", told_.high});
    ReadStream read;
    read.tenant = tenant;
    read.stream = "results";
    read.from = told_.high + 1;
    out.emplace_back(read);
    out.emplace_back(claim(static_cast<std::uint32_t>(random_() % 4)));
    return out;
  }

  void note(const Operation& op, const Result<Reply>& reply) {
    if (!reply) return;
    if (const auto* submit = std::get_if<SubmitJob>(&op)) told_.submitted.insert(submit->id);
    if (const auto* finish = std::get_if<Finish>(&op)) {
      const auto& end = std::get<FinishReply>(*reply);
      told_.ends[end.number] = {end.job, finish->result};
    }
    if (const auto* cancel = std::get_if<CancelReply>(&*reply)) {
      for (const auto& end : cancel->numbers) told_.cancelled.insert(end.job);
    }
    if (const auto* read = std::get_if<ReadStreamReply>(&*reply)) {
      told_.high = std::max(told_.high, read->high);
    }
    if (const auto* cursor = std::get_if<MoveCursorReply>(&*reply)) {
      told_.cursor = cursor->number;
    }
    if (const auto* claims = std::get_if<ClaimReply>(&*reply)) {
      for (const auto& claimed : claims->jobs) {
        held_.push_back(claimed);
        told_.attempts[claimed.job] = claimed.attempt;
        told_.last_lease = std::max(told_.last_lease, claimed.lease);
      }
    }
  }

  std::unique_ptr<Ledger> ledger_;
  std::mt19937_64 random_{42};
  std::vector<ClaimedJob> held_;
  Told told_;
};

// Lists what was acknowledged and is lost, one line each.
class Inspection {
 public:
  explicit Inspection(Ledger& ledger) : ledger_(ledger) {}

  std::vector<std::string> compare(const Told& told) {
    jobs(told);
    stream(told);
    goes_on(told);
    return losses_;
  }

 private:
  template <class T>
  T ask(Operation operation) {
    const auto replies = ledger_.apply(std::span(&operation, 1), start_us + 1'000);
    if (replies && replies->front()) return std::get<T>(*replies->front());
    losses_.push_back(replies ? replies->front().error().text() : replies.error().text());
    return T{};
  }
  void lost(std::string what) { losses_.push_back(std::move(what)); }

  void jobs(const Told& told) {
    for (const std::string& id : told.submitted) {
      const auto seen = ask<GetJobReply>(GetJob{tenant, id});
      if (seen.stream.empty()) lost("acknowledged job " + id);
      if (told.cancelled.contains(id) && seen.state != JobState::cancelled) {
        lost("the end of cancelled " + id);
      }
    }
    JobCounts counts;
    for (const std::string& id : told.tried) {
      Operation get = GetJob{tenant, id};
      const auto replies = ledger_.apply(std::span(&get, 1), start_us);
      if (!replies || !replies->front()) continue;
      const auto& seen = std::get<GetJobReply>(*replies->front());
      std::uint64_t* const places[] = {&counts.queued, &counts.leased,    &counts.completed,
                                       &counts.failed, &counts.cancelled, &counts.expired};
      ++*places[static_cast<std::size_t>(seen.state)];
    }
    if (ask<CountReply>(Count{tenant, "batch"}).counts != counts) lost("the batch's counts");
    if (ask<CountReply>(Count{tenant, ""}).counts != counts) lost("the tenant's counts");
  }

  void stream(const Told& told) {
    ReadStream read;
    read.tenant = tenant;
    read.stream = "results";
    read.max_entries = 100'000;
    const auto got = ask<ReadStreamReply>(read);
    if (got.high < told.high) lost("announced numbers above " + std::to_string(got.high));
    if (got.entries.size() != got.high) lost("entries of the stream");
    for (const auto& [number, end] : told.ends) {
      if (number > got.entries.size()) {
        lost(numbered("committed number ", number));
      } else if (const Entry& entry = got.entries[number - 1];
                 entry.job != end.first || entry.body != end.second) {
        lost(numbered("another result under number ", number));
      }
    }
    read.from = 0;
    read.cursor = "reader";
    read.max_entries = 1;
    const auto next = ask<ReadStreamReply>(read);
    const std::uint64_t cursor = next.entries.empty() ? next.high : next.entries[0].number - 1;
    if (cursor < told.cursor) lost("the cursor");
  }

  // The ledger must go on working: every job ends, and no lease id is used twice.
  void goes_on(const Told& told) {
    const auto held = ask<FindLapsedReply>(FindLapsed{0, {}, true});
    std::vector<LeaseId> leases;
    for (const auto& lease : held.leases) leases.push_back(lease.lease);
    ask<GiveBackReply>(GiveBack{leases, Blame::none, ""});
    for (const std::string& id : told.tried) ask<SubmitReply>(job(id, "batch"));
    for (const auto& claimed : ask<ClaimReply>(claim(100'000)).jobs) {
      if (claimed.lease <= told.last_lease) lost(numbered("lease came back: ", claimed.lease));
      const auto before = told.attempts.find(claimed.job);
      const bool retried = claimed.attempt == 1;
      if (!retried && before != told.attempts.end() && claimed.attempt <= before->second) {
        lost("a hand-out of " + claimed.job);
      }
      ask<FinishReply>(Finish{claimed.lease, JobState::completed, "late", "engine"});
    }
    const JobCounts counts = ask<CountReply>(Count{tenant, ""}).counts;
    if (counts.queued + counts.leased != 0) lost("jobs that never end");
    if (counts.completed + counts.failed + counts.cancelled != told.tried.size()) {
      lost("jobs at the end");
    }
  }

  Ledger& ledger_;
  std::vector<std::string> losses_;
};

struct Outcome {
  int runs_with_losses = 0, cut_after_acknowledgement = 0;
  std::string first;
};

std::uint64_t length_of_run(Planted planted) {
  PowerCutDisk disk;
  auto ledger = open_on(disk, planted);
  EXPECT_TRUE(ledger);
  Script script(*std::move(ledger));
  EXPECT_GT(script.run().ends.size(), 10u) << "the script must do something";
  return disk.calls();
}

Outcome cut_everywhere(Planted planted) {
  const std::uint64_t length = length_of_run(planted);
  Outcome outcome;
  for (int i = 0; i < cut_points; ++i) {
    PowerCutDisk disk;
    const auto at = 1 + length * static_cast<std::uint64_t>(i) / cut_points;
    disk.cut_at(at);
    Told told;
    if (auto ledger = open_on(disk, planted)) {
      if (planted == Planted::early_acknowledgement) {
        ledger = std::make_unique<HastyLedger>(*std::move(ledger));
      }
      told = Script(*std::move(ledger)).run();
    }
    if (!disk.is_cut()) {  // the hasty ledger never makes its last commit
      EXPECT_EQ(planted, Planted::early_acknowledgement);
      continue;
    }
    outcome.cut_after_acknowledgement += told.submitted.empty() ? 0 : 1;
    disk.restore(static_cast<std::uint64_t>(i));
    auto ledger = open_on(disk, Planted::nothing);
    std::vector<std::string> losses;
    if (ledger) {
      losses = Inspection(**ledger).compare(told);
    } else {
      losses.push_back("cannot be opened: " + ledger.error().text());
    }
    if (losses.empty()) continue;
    ++outcome.runs_with_losses;
    if (outcome.first.empty()) outcome.first = numbered("cut at call ", at) + ": " + losses[0];
  }
  return outcome;
}

TEST(PowerCut, LosesNothingThatWasAcknowledged) {
  const Outcome outcome = cut_everywhere(Planted::nothing);
  EXPECT_EQ(outcome.runs_with_losses, 0) << outcome.first;
  EXPECT_GT(outcome.cut_after_acknowledgement, cut_points / 2);
}

TEST(PowerCut, NoticesLoweredSynchronous) {
  for (const Planted planted : {Planted::synchronous_normal, Planted::synchronous_off}) {
    const Outcome outcome = cut_everywhere(planted);
    EXPECT_GT(outcome.runs_with_losses, 0);
    RecordProperty(planted == Planted::synchronous_off ? "off" : "normal",
                   outcome.runs_with_losses);
  }
}

TEST(PowerCut, NoticesAnAcknowledgementBeforeItsCommit) {
  const Outcome outcome = cut_everywhere(Planted::early_acknowledgement);
  EXPECT_GT(outcome.runs_with_losses, 0);
  RecordProperty("early", outcome.runs_with_losses);
}

// The script must include checkpoints, the dangerous part of a write-ahead log.
TEST(PowerCut, TheScriptHasCheckpoints) {
  PowerCutDisk disk;
  auto ledger = open_on(disk, Planted::nothing);
  ASSERT_TRUE(ledger);
  const std::size_t before = disk.file("ledger").content.size();
  Script script(*std::move(ledger));
  script.run();  // the ledger is still open: closing it would make a checkpoint
  EXPECT_GT(disk.file("ledger").content.size(), before + 10 * 4096);
}

}  // namespace
}  // namespace millrace::broker::test
