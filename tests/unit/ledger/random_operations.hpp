#pragma once
// Operations of every kind on a small ledger of two tenants, determined by a seed: 60 ids, three
// engines, two batches, two streams, two cursors. Ids and leases are often unknown or stale.
// Thread safety: none.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {

class RandomOperations {
 public:
  static constexpr std::uint32_t jobs = 60;
  // Bodies have up to about `most_bytes`. For every third seed the queues are small, so that
  // submits are refused, also in the middle of a set.
  explicit RandomOperations(std::uint64_t seed, std::uint32_t most_bytes = 40)
      : random_(seed),
        most_bytes_(most_bytes),
        max_queued_(seed % 3 == 0 ? 9 : limits::queued_jobs) {}

  static std::vector<std::string> tenants() { return {tenant, "other"}; }
  static std::vector<std::string> batches() { return {"", "batch0", "batch1"}; }
  static std::vector<std::string> streams() { return {"results", "second"}; }
  static std::vector<std::string> ids() {
    std::vector<std::string> out;
    for (std::uint64_t n = 0; n < jobs; ++n) out.push_back(numbered("j", n));
    return out;
  }

  Body body_of(std::uint32_t n) const {
    return job(numbered("j", n)).body.append(n * most_bytes_ / jobs, 'b');
  }

  Operation next() {
    switch (below(20)) {
      case 0:
      case 1:
      case 2:
      case 3:
        return submit();
      case 4:
      case 5:
        return claims();
      case 6:
      case 7:
      case 8:
        return finish();
      case 9:
      case 10:
      case 11:
        return GiveBack{leases(), below(2) == 0 ? Blame::died : Blame::none,
                        below(4) == 0 ? engine() : "",
                        below(2) == 0 ? leases() : std::vector<LeaseId>()};
      case 12:
        return Renew{engine(), leases(), now() + 500};
      case 13:
        return below(2) == 0 ? Operation(ExpireJobs{who(), below(4)})
                             : Operation(StartJobs{who(), below(4)});
      case 14:
        return cancel();
      case 15:
        if (below(4) == 0) {
          return below(2) == 0 ? DropJobs{who(), {id(), id()}, "", 5}
                               : DropJobs{who(), {}, batch(), below(4)};
        }
        return below(2) == 0 ? RetryJobs{who(), {id(), id()}, "", 5}
                             : RetryJobs{who(), {}, batch(), below(4), below(2) * below(40)};
      case 16:
        return read();
      case 17:
        return MoveCursor{who(), stream(), cursor(), below(12)};
      case 18:
        return keep();
      default:
        return question();
    }
  }
  // A few operations of any kind, or a set of one kind.
  std::vector<Operation> batch_of_operations() {
    std::vector<Operation> out;
    if (below(3) == 0) {
      const bool submits = below(2) == 0;
      for (std::uint32_t n = 2 + below(12); n > 0; --n) {
        out.push_back(submits ? Operation(submit()) : Operation(finish()));
      }
      return out;
    }
    for (std::uint32_t n = 1 + below(5); n > 0; --n) out.push_back(next());
    return out;
  }
  std::int64_t now() const { return start_us + steps_ * 10; }
  void step() { ++steps_; }
  std::uint32_t below(std::uint32_t n) { return static_cast<std::uint32_t>(random_() % n); }

  std::string id() { return numbered("j", below(jobs)); }
  std::string who() { return below(5) == 0 ? "other" : tenant; }
  std::string batch() { return below(3) == 0 ? "" : numbered("batch", below(2)); }

 private:
  // The id must determine the job, or a second submission would be another job.
  SubmitJob submit() {
    const std::uint32_t n = below(jobs);
    SubmitJob op = job(numbered("j", n), n % 3 == 0 ? "" : numbered("batch", n % 2));
    op.tenant = who();
    op.body = body_of(n);
    op.priority = n % 5;
    op.cost_tokens = 1 + n % 50;
    op.prefix = n % 3 == 0 ? 0 : n % 8;
    op.max_queued = max_queued_;
    op.stream = n % 4 == 0 ? "second" : "results";
    op.model = n % 7 == 0 ? "*" : n % 11 == 0 ? "rare" : "model";
    op.kv = n % 5 == 1 ? "r5/r3" : n % 5 == 2 ? "f16/f16" : "";
    op.max_attempts = 1 + n % 2;
    if (n % 6 == 0) op.deadline_us = start_us + n * 100;
    if (n % 9 == 4) op.not_before_us = start_us + n * 20;
    if (below(20) == 0) op.hash = "another";
    return op;
  }
  Finish finish() {
    Finish op{lease(), end_state(), text(), below(4) == 0 ? engine() : ""};
    if (op.state != JobState::failed || below(2) == 0) return op;
    op.error = Error{below(3) == 0 ? Code::out_of_memory : Code::invalid_token, text(), ""};
    return op;
  }
  Operation claims() {
    Claim op{who(),    engine(),    below(6) == 0 ? "rare" : "model",
             below(6), now() + 300, static_cast<ClaimFrom>(below(5) / 2)};
    if (below(4) == 0) op.max_bytes = below(60);
    if (below(4) == 0) op.max_tokens = below(100);
    if (below(4) == 0) op.max_leased = 1 + below(4);
    if (below(2) == 0) op.kv.push_back("r5/r3");
    if (below(2) == 0) op.kv.push_back("f16/f16");
    if (below(2) == 0) op.tail_jobs = 1 + below(30);
    if (below(2) == 0) op.prefixes.take(1 + below(7));
    if (below(2) == 0) {
      op.prefixes.any = std::make_shared<const std::vector<std::uint64_t>>(1, 1 + below(7));
    }
    if (below(3) != 0) return op;
    ClaimShared shared{std::move(op)};
    shared.from = ClaimFrom::jobs;
    shared.goes_on = below(2) == 0;
    for (const std::string whose : {"default", "other", "third"}) {
      shared.shares.push_back({whose, std::int64_t{below(100)} - 50, 1 + below(60), below(3)});
    }
    return shared;
  }
  Operation cancel() {
    if (below(2) == 0) return CancelJobs{who(), {id(), id()}, "", 1};
    return CancelJobs{who(), {}, batch(), below(4)};
  }
  Operation read() {
    ReadStream op = reading(stream(), below(10) == 0 ? "no such epoch" : "");
    op.tenant = who();
    op.from = below(10);
    op.cursor = "reader";
    op.max_entries = below(6);
    op.max_bytes = below(100);
    return op;
  }
  Operation keep() {
    switch (below(11)) {
      case 9:
      case 10:
        return pause();
      case 8: {
        UpdateBatch op{who(), {batch(), below(3) == 0, {}}};
        op.change.metadata[below(2) == 0 ? "one" : "two"] = text();
        return op;
      }
      case 0:
        return TrimStream{who(), stream(), below(10)};
      case 1:
        return below(4) == 0 ? Operation(RemoveStream{who(), stream()})
                             : Operation(RemoveCursor{who(), stream(), cursor()});
      case 2: {
        KeepStream op{who(), stream(), {}};
        if (below(2) == 0) op.set.age_us = 400 * below(3);
        if (below(2) == 0) op.set.bytes = 60 * below(3);
        return op;
      }
      default: {
        Retain op;
        if (below(2) == 0) op.policy.streams = {200, 100, 500};
        if (below(2) == 0) op.policy.job_age_us = 300;
        op.max_rows = 1 + below(5);
        if (below(4) == 0) op.after = {who(), "results"};
        return op;
      }
    }
  }
  // Resumes more often than it pauses, so that jobs go on.
  Operation pause() {
    const std::uint32_t what = below(4);
    const std::string batch = what < 2 ? numbered("batch", below(2)) : "";
    const std::string model = what == 2 ? (below(2) == 0 ? "*" : "model") : "";
    if (below(3) == 0) return Pause{who(), batch, model};
    return Resume{who(), batch, model, below(4)};
  }
  Operation question() {
    switch (below(10)) {
      case 8:
      case 9:
        return list();
      case 0:
        return GetJob{who(), id()};
      case 1:
        return Count{who(), batch(), below(2) == 0, below(2) == 0};
      case 2:
        return FindLapsed{now(), {engine()}, below(5) == 0};
      case 3:
        return ListStreams{who(), below(2) == 0 ? "" : "results", 1 + below(2)};
      case 4:
        return ListTenants{};
      case 5:
        return GetStream{who(), stream()};
      case 6:
        return ListCursors{who(), stream()};
      default:
        return Append{who(), stream(), id(), text()};
    }
  }
  Operation list() {
    if (below(4) == 0) {
      return ListBatches{
          who(),
          {below(2) == 0 ? batch() : "", below(2) == 0 ? batch() : "", below(2) == 0},
          1 + below(2)};
    }
    ListJobs op{who(), {}, 1 + below(5), 1 + below(20)};
    if (below(6) == 0) op.wanted.job = id();
    if (below(2) == 0) op.wanted.batch = batch();
    if (below(3) == 0) op.wanted.stream = stream();
    if (below(2) == 0) op.wanted.state = static_cast<JobState>(below(6));
    if (below(3) == 0) op.wanted.after = below(2) == 0 ? id() : std::to_string(below(80));
    if (below(4) == 0) op.max_bytes = below(1000);
    return op;
  }
  std::string engine() { return numbered("engine", below(3)); }
  std::string cursor() { return below(2) == 0 ? "reader" : "other"; }
  std::string stream() { return below(3) == 0 ? "second" : "results"; }
  std::string text() { return std::string(below(most_bytes_), 'r'); }
  JobState end_state() { return static_cast<JobState>(1 + below(5)); }  // `leased` is refused
  LeaseId lease() { return 1 + below(static_cast<std::uint32_t>(5 + steps_)); }
  std::vector<LeaseId> leases() {
    std::vector<LeaseId> out;
    for (std::uint32_t i = 0, n = 1 + below(8); i < n; ++i) out.push_back(lease());
    return out;
  }

  std::mt19937_64 random_;
  const std::uint32_t most_bytes_;
  std::uint64_t max_queued_;
  std::int64_t steps_ = 0;
};

}  // namespace millrace::broker::test
