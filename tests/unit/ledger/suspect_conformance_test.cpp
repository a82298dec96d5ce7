// Every ledger must handle suspects as tested here: which jobs a death marks, in which groups they
// run again, what counts against a job, and what closes an incident.
#include <set>

#include "tests/unit/ledger/harness.hpp"

namespace millrace::broker::test {
namespace {

using Strings = std::vector<std::string>;

class SuspectTest : public LedgerTest {
 protected:
  void submit_many(int first, int last) {
    for (int i = first; i <= last; ++i) submit(job(numbered("j", static_cast<std::uint64_t>(i))));
  }
  static std::vector<LeaseId> leases_of(const std::vector<ClaimedJob>& jobs) {
    std::vector<LeaseId> out;
    for (const ClaimedJob& one : jobs) out.push_back(one.lease);
    return out;
  }
  GiveBackReply die(const std::vector<ClaimedJob>& held, std::vector<LeaseId> waiting = {}) {
    return expect<GiveBackReply>(
        GiveBack{leases_of(held), Blame::died, "engine", std::move(waiting)});
  }
};

INSTANTIATE_TEST_SUITE_P(Ledgers, SuspectTest, every_kind(), kind_name);

TEST_P(SuspectTest, ADeathMakesSuspectsAndBlamesNobodyYet) {
  for (const char* id : {"a", "b", "c"}) submit(job(id));
  const auto held = take(2);
  ledger.now_us += 10;
  give_back({held[0].lease, held[1].lease}, Blame::died);
  EXPECT_EQ(suspects(), 2u);
  EXPECT_EQ(count().suspects.at(0).oldest_us, start_us + 10);
  EXPECT_EQ(look("a").failures, 0u);
  EXPECT_TRUE(look("a").suspect);
  EXPECT_EQ(ids(take(9)), (Strings{"c"})) << "a normal claim gets no suspects";
  const auto alone = take(9, true, "fresh");
  EXPECT_EQ(ids(alone), (Strings{"a"})) << "one at a time";
  EXPECT_TRUE(alone[0].suspect);
  EXPECT_EQ(alone[0].attempt, 2u);
  finish(alone[0].lease);
  EXPECT_EQ(suspects(), 1u);
}

TEST_P(SuspectTest, DyingAloneCountsUntilTheJobIsOutOfAttempts) {
  submit(job("a"));
  give_back({take(1).at(0).lease}, Blame::died);
  EXPECT_EQ(look("a").failures, 0u) << "it was not handed out alone";
  const LeaseId first = take(1, true).at(0).lease;
  EXPECT_EQ(give_back({first}, Blame::died).returned, (Strings{"a"}));
  EXPECT_EQ(look("a").failures, 1u);
  const LeaseId second = take(1, true).at(0).lease;
  EXPECT_TRUE(expect<FindLapsedReply>(FindLapsed{0, {}, true}).leases.at(0).alone);
  const GiveBackReply last = give_back({second}, Blame::died);
  EXPECT_TRUE(last.returned.empty());
  ASSERT_EQ(last.ended.size(), 1u);
  EXPECT_EQ(last.ended[0].job, "a");
  EXPECT_EQ(last.ended[0].state, JobState::failed);
  EXPECT_EQ(last.ended[0].number, 1u);
  EXPECT_EQ(read().entries.at(0).body,
            "a|label of a|model||labels of a|3|engine_died|3|" + std::to_string(start_us));
  EXPECT_EQ(count().counts, (JobCounts{0, 0, 0, 1, 0, 0}));
  EXPECT_EQ(suspects(), 0u);
}

TEST_P(SuspectTest, ASuspectBesideOthersIsNotBlamed) {
  for (const char* id : {"a", "b"}) submit(job(id));
  const auto both = take(2);
  give_back({both[0].lease, both[1].lease}, Blame::died);
  submit(job("c"));
  const LeaseId suspect = take(1, true).at(0).lease;
  const LeaseId other = take(1).at(0).lease;
  give_back({suspect, other}, Blame::died);
  EXPECT_EQ(look("a").failures, 0u);
  EXPECT_EQ(look("c").failures, 0u);
}

TEST_P(SuspectTest, SuspectsAreCountedByModelAndKvPolicy) {
  const auto put = [&](const std::string& id, const std::string& model, const std::string& kv) {
    SubmitJob op = job(id);
    op.model = model;
    op.kv = kv;
    submit(op);
  };
  put("a", "model", "r5/r3");
  put("b", "*", "");
  put("c", "model", "");
  put("d", "*", "");
  Claim all = claim(9);
  all.kv = {"r5/r3"};
  for (const ClaimedJob& held : expect<ClaimReply>(all).jobs) {
    ledger.now_us += 10;
    give_back({held.lease}, Blame::died);
  }
  const auto told = [&] {
    Strings out;
    for (const SuspectQueue& queue : count().suspects) {
      EXPECT_TRUE(queue.alone);
      out.push_back(queue.model + " '" + queue.kv + "' " + std::to_string(queue.jobs) + " since " +
                    std::to_string(queue.oldest_us - start_us));
    }
    return out;
  };
  EXPECT_EQ(told(),
            (Strings{"* '' 2 since 20", "model '' 1 since 30", "model 'r5/r3' 1 since 10"}));
  EXPECT_EQ(ids(take(1, true)), (Strings{"b"}));
  EXPECT_EQ(told(),
            (Strings{"* '' 1 since 40", "model '' 1 since 30", "model 'r5/r3' 1 since 10"}));
  EXPECT_TRUE(expect<CountReply>(Count{"other", ""}).suspects.empty());
}

TEST_P(SuspectTest, ASuspectGivenBackWithoutBlameStaysASuspect) {
  submit(job("a"));
  give_back({take(1).at(0).lease}, Blame::died);
  give_back({take(1, true).at(0).lease}, Blame::none);
  EXPECT_EQ(look("a").failures, 0u);
  EXPECT_TRUE(take(1).empty());
  EXPECT_EQ(take(1, true).size(), 1u);
}

// The numbers of the bisection: 2 + log2 64 deaths, wherever the job that causes them stands.
TEST_P(SuspectTest, OneOf64IsFoundInEightDeaths) {
  for (const std::uint64_t place : {0, 31, 63}) {
    SCOPED_TRACE(place);
    const std::uint64_t first = 1000 * (place + 1);
    for (std::uint64_t i = 0; i < 64; ++i) submit(job(numbered("j", first + i)));
    const std::string killer = numbered("j", first + place);
    std::vector<ClaimedJob> held = take(64);
    std::vector<std::size_t> deaths;
    while (look(killer).state != JobState::failed && deaths.size() < 20) {
      if (std::ranges::count(ids(held), killer) > 0) {
        deaths.push_back(held.size());
        die(held);
      } else {
        for (const ClaimedJob& one : held) finish(one.lease);
      }
      held = take(64, true);
      for (const ClaimedJob& one : held) EXPECT_EQ(one.alone, held.size() == 1);
    }
    EXPECT_EQ(deaths, (std::vector<std::size_t>{64, 32, 16, 8, 4, 2, 1, 1}));
    EXPECT_EQ(look(killer).failures, 2u);
    EXPECT_EQ(suspects(), 0u) << "the others are suspects no more";
    for (const ClaimedJob& one : take(64)) finish(one.lease);
    EXPECT_EQ(count().counts.queued + count().counts.leased, 0u);
  }
  EXPECT_EQ(count().counts.completed, 3 * 63u);
}

TEST_P(SuspectTest, TheStateOfABisectionIsOnDisk) {
  submit_many(0, 15);
  die(take(16));
  EXPECT_EQ(look("j0").among, 16u);
  const auto half = take(64, true);
  EXPECT_EQ(half.size(), 8u);
  die(half);
  EXPECT_EQ(look("j0").among, 8u);
  EXPECT_EQ(look("j8").among, 16u);
  EXPECT_EQ(look("j8").incident, look("j0").incident);
  // A group that is given back without blame stays as it is.
  give_back(leases_of(take(64, true)));
  EXPECT_EQ(take(64, true).size(), 4u);
  EXPECT_EQ(look("j0").failures, 0u);
}

TEST_P(SuspectTest, JobsBesideAGroupJoinItsIncidentAndRunAfterIt) {
  submit_many(0, 7);
  die(take(8));
  submit_many(8, 11);
  auto held = take(64, true);
  ASSERT_EQ(held.size(), 4u);
  for (ClaimedJob& one : take(4)) held.push_back(std::move(one));
  die(held);
  EXPECT_EQ(look("j0").among, 4u);
  EXPECT_EQ(look("j8").among, 8u) << "all that were under way";
  EXPECT_EQ(look("j8").incident, look("j0").incident);
  EXPECT_EQ(look("j4").among, 8u);
  EXPECT_EQ(ids(take(64, true)), (Strings{"j0", "j1"})) << "the narrowest come first";
}

TEST_P(SuspectTest, JobsThatWaitedInTheEngineAreExcusedTwice) {
  submit_many(0, 3);
  for (int death = 1; death <= 3; ++death) {
    std::vector<ClaimedJob> held = take(4);
    if (death > 1) {
      for (ClaimedJob& one : take(4, true)) held.push_back(std::move(one));
    }
    ASSERT_EQ(look("j3").attempts, static_cast<std::uint32_t>(death));
    const LeaseId lease = *look("j3").lease;
    expect<GiveBackReply>(GiveBack{leases_of(held), Blame::died, "engine", {lease}});
    EXPECT_EQ(look("j3").suspect, death > 2) << death;
    EXPECT_TRUE(look("j0").suspect);
  }
}

TEST_P(SuspectTest, AJobThatWaitsToRunAloneIsNotBlamed) {
  submit(job("a"));
  die(take(1));
  const auto alone = take(1, true);
  ASSERT_TRUE(alone.at(0).alone);
  die(alone, {alone[0].lease});
  EXPECT_EQ(look("a").failures, 0u);
  EXPECT_EQ(look("a").among, 1u);
}

TEST_P(SuspectTest, AClaimOfGroupsLeavesThoseThatRunAlone) {
  submit_many(0, 2);
  die(take(3));
  Claim op = claim(64);
  op.from = ClaimFrom::groups;
  EXPECT_TRUE(expect<ClaimReply>(op).jobs.empty());
  submit_many(3, 6);
  die(take(4));
  const auto group = expect<ClaimReply>(op).jobs;
  EXPECT_EQ(ids(group), (Strings{"j3", "j4"}));
  EXPECT_FALSE(group.at(0).alone);
  const auto told = count().suspects;
  ASSERT_EQ(told.size(), 2u);
  EXPECT_FALSE(told[0].alone);
  EXPECT_EQ(told[0].jobs, 2u);
  EXPECT_TRUE(told[1].alone);
  EXPECT_EQ(told[1].jobs, 3u);
}

TEST_P(SuspectTest, AGroupHasJobsOfOneIncidentOnly) {
  submit_many(0, 3);
  die(take(2));
  const auto second = take(2, false);
  die(second);
  const auto group = take(64, true);
  EXPECT_EQ(ids(group), (Strings{"j0"}));
  submit_many(4, 11);
  auto held = take(8);
  die({held.begin(), held.begin() + 4});
  die({held.begin() + 4, held.end()});
  Claim op = claim(64);
  op.from = ClaimFrom::groups;
  EXPECT_EQ(ids(expect<ClaimReply>(op).jobs), (Strings{"j4", "j5"}));
  EXPECT_EQ(ids(expect<ClaimReply>(op).jobs), (Strings{"j6", "j7"}));
  EXPECT_EQ(ids(expect<ClaimReply>(op).jobs), (Strings{"j8", "j9"}));
}

TEST_P(SuspectTest, AnIncidentThatIsExplainedIsClosedForQueuedAndLeasedJobs) {
  submit_many(0, 3);
  die(take(4));  // one incident: j0 to j3, among 4
  const auto pair = take(64, true);
  ASSERT_EQ(ids(pair), (Strings{"j0", "j1"}));
  die({pair[0]});  // j0 alone among itself; its engine still holds j1
  EXPECT_EQ(look("j0").among, 1u);
  EXPECT_EQ(look("j0").failures, 0u);
  give_back({pair[1].lease});
  die(take(64, true));
  EXPECT_EQ(look("j0").failures, 1u);
  const auto proof = take(64, true);
  ASSERT_EQ(ids(proof), (Strings{"j0"}));
  const auto leased = take(64, true, "other");
  ASSERT_EQ(ids(leased), (Strings{"j1", "j2"}));
  EXPECT_EQ(die(proof).ended.at(0).state, JobState::failed);
  EXPECT_EQ(suspects(), 0u);
  for (const char* id : {"j1", "j2", "j3"}) EXPECT_FALSE(look(id).suspect) << id;
  EXPECT_EQ(look("j1").state, JobState::leased);
  EXPECT_EQ(ids(take(64)), (Strings{"j3"}));
  // The death of the other engine now begins an incident of its own.
  expect<GiveBackReply>(GiveBack{leases_of(leased), Blame::died, "other"});
  EXPECT_EQ(look("j1").incident, leased[0].lease);
}

}  // namespace
}  // namespace millrace::broker::test
