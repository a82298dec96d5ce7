// Runs random operations, determined by seeds, on two ledgers side by side: the SQLite ledger and
// the one in memory, the operations on sets that SQLite replaces and their plain forms, one commit
// and many. Every reply must be the same, and after each run the invariants are computed from
// scratch.
#include <map>
#include <random>
#include <set>

#include "tests/unit/ledger/harness.hpp"
#include "tests/unit/ledger/reply_text.hpp"

namespace millrace::broker::test {
namespace {

class Generator {
 public:
  explicit Generator(std::uint64_t seed) : random_(seed) {}

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
        return ExpireJobs{who(), below(4)};
      case 14:
        return cancel();
      case 15:
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

  std::string id() { return numbered("j", below(60)); }
  std::string who() { return below(5) == 0 ? "other" : tenant; }
  std::string batch() { return below(3) == 0 ? "" : numbered("batch", below(2)); }

 private:
  // The id must determine the job, or a second submission would be another job.
  SubmitJob submit() {
    const std::uint32_t n = below(60);
    SubmitJob op = job(numbered("j", n), n % 3 == 0 ? "" : numbered("batch", n % 2));
    op.tenant = who();
    op.priority = n % 5;
    op.stream = n % 4 == 0 ? "second" : "results";
    op.model = n % 7 == 0 ? "*" : n % 11 == 0 ? "rare" : "model";
    op.kv = n % 5 == 1 ? "r5/r3" : n % 5 == 2 ? "f16/f16" : "";
    op.max_attempts = 1 + n % 2;
    if (n % 6 == 0) op.deadline_us = start_us + n * 100;
    if (below(20) == 0) op.hash = "another";
    return op;
  }
  Finish finish() { return {lease(), end_state(), text(), below(4) == 0 ? engine() : ""}; }
  Operation claims() {
    Claim op{who(),    engine(),    below(6) == 0 ? "rare" : "model",
             below(6), now() + 300, static_cast<ClaimFrom>(below(5) / 2)};
    if (below(4) == 0) op.max_bytes = below(60);
    if (below(2) == 0) op.kv.push_back("r5/r3");
    if (below(2) == 0) op.kv.push_back("f16/f16");
    return op;
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
    switch (below(8)) {
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
  Operation question() {
    switch (below(8)) {
      case 0:
        return GetJob{who(), id()};
      case 1:
        return Count{who(), batch()};
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
  std::string engine() { return numbered("engine", below(3)); }
  std::string cursor() { return below(2) == 0 ? "reader" : "other"; }
  std::string stream() { return below(3) == 0 ? "second" : "results"; }
  std::string text() { return std::string(below(40), 'r'); }
  JobState end_state() { return static_cast<JobState>(1 + below(5)); }  // `leased` is refused
  LeaseId lease() { return 1 + below(static_cast<std::uint32_t>(5 + steps_)); }
  std::vector<LeaseId> leases() {
    std::vector<LeaseId> out;
    for (std::uint32_t i = 0, n = 1 + below(8); i < n; ++i) out.push_back(lease());
    return out;
  }

  std::mt19937_64 random_;
  std::int64_t steps_ = 0;
};

template <class T>
T ask(AnyLedger& ledger, Operation operation) {
  const auto reply = ledger.apply_one(std::move(operation));
  return reply && std::holds_alternative<T>(*reply) ? std::get<T>(*reply) : T{};
}

// Deletes what is no longer kept, after which a stream's bytes are those of the entries it shows.
void retain(AnyLedger& ledger) {
  Retain step;
  RetainReply reply;
  do {
    reply = ask<RetainReply>(ledger, step);
    step.after = reply.after;
  } while (reply.more);
}

std::uint64_t bytes_of(const ReadStreamReply& got) {
  std::uint64_t bytes = 0;
  for (const Entry& entry : got.entries) bytes += entry.body.size();
  return bytes;
}

// Checks the invariants from single jobs and entries, independently of a ledger's own counts.
void check_invariants(AnyLedger& ledger, const std::string& who) {
  std::map<std::string, JobCounts> counts;
  std::set<LeaseId> leases;
  std::map<std::string, std::map<std::uint64_t, std::string>> ends;
  for (std::uint64_t n = 0; n < 60; ++n) {
    const auto reply = ledger.apply_one(GetJob{who, numbered("j", n)});
    if (!reply) continue;
    const auto& seen = std::get<GetJobReply>(*reply);
    std::set<std::string> books{"", seen.batch};
    for (const std::string& book : books) {
      JobCounts& c = counts[book];
      std::uint64_t* const places[] = {&c.queued, &c.leased,    &c.completed,
                                       &c.failed, &c.cancelled, &c.expired};
      ++*places[static_cast<std::size_t>(seen.state)];
    }
    EXPECT_EQ(seen.state == JobState::leased, seen.lease.has_value());
    EXPECT_EQ(is_end(seen.state), seen.number != 0);
    if (seen.lease) {
      EXPECT_TRUE(leases.insert(*seen.lease).second) << "one lease, two jobs";
    }
    if (seen.number != 0) {
      EXPECT_TRUE(ends[seen.stream].emplace(seen.number, numbered("j", n)).second);
    }
  }
  for (const std::string book : {"", "batch0", "batch1"}) {
    EXPECT_EQ(ask<CountReply>(ledger, Count{who, book}).counts, counts[book]) << book;
  }
  for (const auto& lease : ask<FindLapsedReply>(ledger, FindLapsed{0, {}, true}).leases) {
    if (lease.tenant == who) {
      EXPECT_EQ(leases.erase(lease.lease), 1u);
    }
  }
  EXPECT_TRUE(leases.empty());
  retain(ledger);
  for (const auto& info : ask<ListStreamsReply>(ledger, ListStreams{who, ""}).streams) {
    ReadStream read = reading(info.stream);
    read.tenant = who;
    read.from = info.first;
    const auto got = ask<ReadStreamReply>(ledger, read);
    EXPECT_EQ(got.entries.size(), got.high + 1 - got.first);
    EXPECT_EQ(info.bytes, bytes_of(got)) << info.stream;
    for (std::size_t i = 0; i < got.entries.size(); ++i) {
      const Entry& entry = got.entries[i];
      EXPECT_EQ(entry.number, got.first + i);
      const auto end = ends[info.stream].find(entry.number);
      if (end != ends[info.stream].end()) {
        EXPECT_EQ(entry.job, end->second);
      }
    }
  }
}

enum class Commits { together, one_by_one };

std::vector<Result<Reply>> apply(AnyLedger& ledger, const std::vector<Operation>& operations,
                                 Commits commits) {
  if (commits == Commits::together) return ledger.apply(operations);
  std::vector<Result<Reply>> replies;
  for (const Operation& op : operations) replies.push_back(ledger.apply_one(op));
  return replies;
}

void run(std::uint64_t seed, Kind first, Kind second, int steps,
         Commits commits = Commits::together, std::uint64_t fault_seed = 0) {
  // With a small queue submits are refused, also in the middle of a set.
  Limits with{.max_queued_jobs = seed % 3 == 0 ? 9 : limits::queued_jobs, .synced = false};
  AnyLedger one(first, with);
  with.fault_seed = fault_seed;
  AnyLedger other(second, with);
  Generator generator(seed);
  for (int i = 0; i < steps; ++i) {
    const std::vector<Operation> operations = generator.batch_of_operations();
    one.now_us = other.now_us = generator.now();
    generator.step();
    const auto expected = one.apply(operations);
    const auto got = apply(other, operations, commits);
    ASSERT_EQ(expected.size(), got.size());
    for (std::size_t k = 0; k < operations.size(); ++k) {
      ASSERT_EQ(print(got[k]), print(expected[k]))
          << "seed " << seed << ", step " << i << ", operation " << k << " of kind "
          << operations[k].index();
    }
  }
  check_invariants(one, tenant);
  check_invariants(other, tenant);
  check_invariants(other, "other");
  if (fault_seed != 0) {
    EXPECT_GT(other.faults().provoked, static_cast<std::uint64_t>(steps) / 4);
  }
}

void run_seeds(std::uint64_t first, std::uint64_t last, Kind one, Kind other, int steps,
               Commits commits = Commits::together) {
  for (auto seed = first; seed <= last && !testing::Test::HasFatalFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    run(seed, one, other, steps, commits);
  }
}

TEST(LedgerModel, BothLedgersAnswerAlike) {
  run_seeds(1, 25, Kind::memory, Kind::sqlite, 150);
}

TEST(LedgerModel, AlsoWhenReopenedBeforeEachCommit) {
  run_seeds(101, 103, Kind::memory, Kind::sqlite_reopened, 100);
}

TEST(LedgerModel, ReplacedOperationsAnswerLikeTheirPlainForms) {
  run_seeds(201, 225, Kind::sqlite_plain, Kind::sqlite, 150);
}

TEST(LedgerModel, AStoreThatIsOftenUnavailableGivesTheSameAnswers) {
  for (std::uint64_t seed = 401; seed <= 420 && !HasFatalFailure(); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    run(seed, Kind::memory, Kind::memory, 150, Commits::together, seed);
    run(seed, Kind::memory, Kind::memory_two_handles, 100, Commits::together, seed);
    if (seed % 4 == 0) run(seed, Kind::sqlite, Kind::sqlite, 80, Commits::together, seed);
  }
}

TEST(LedgerModel, OperationsOfOneCommitAnswerLikeThoseOfMany) {
  run_seeds(301, 315, Kind::memory, Kind::memory_two_handles, 150, Commits::one_by_one);
  run_seeds(316, 321, Kind::sqlite, Kind::sqlite, 80, Commits::one_by_one);
}

}  // namespace
}  // namespace millrace::broker::test
