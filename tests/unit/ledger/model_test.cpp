// Runs random operations, determined by seeds, on two ledgers side by side: the SQLite ledger and
// the one in memory, the operations on sets that SQLite replaces and their plain forms, one commit
// and many. Every reply must be the same, and after each run the invariants are computed from
// scratch.
#include <map>
#include <random>
#include <set>

#include "tests/unit/ledger/harness.hpp"
#include "tests/unit/ledger/random_operations.hpp"
#include "tests/unit/ledger/reply_text.hpp"

namespace millrace::broker::test {
namespace {

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
  Limits with{.synced = false};
  AnyLedger one(first, with);
  with.fault_seed = fault_seed;
  AnyLedger other(second, with);
  RandomOperations generator(seed);
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

TEST(LedgerModel, PostgresAnswersLikeMemory) {
  run_seeds(501, 506, Kind::memory, Kind::postgres, 100);
  run_seeds(507, 508, Kind::memory, Kind::postgres_plain, 60);
  run_seeds(509, 509, Kind::memory, Kind::postgres, 60, Commits::one_by_one);
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
