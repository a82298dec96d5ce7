// A ledger that refuses an operation, as it does on a disk where even the ballast is used up: the
// broker logs it, and does later what it could not do now. Only a result that cannot be stored ends
// it, because its engine keeps the result for the next broker process.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

const Peer e = World::engine("e");

Result<Reply> no_space() {
  return fail(Code::disk_full, "no space is left", "free some");
}

// Makes the ledger refuse all operations of these kinds.
template <class... Kinds>
void refuse(World& world) {
  world.instead = [](const Operation& operation) -> std::optional<Result<Reply>> {
    if (!(std::holds_alternative<Kinds>(operation) || ...)) return std::nullopt;
    return no_space();
  };
}

// How many notes of this level begin with this text and end with the ledger's error.
std::ptrdiff_t notes(const World& world, NoteLevel level, const std::string& begin) {
  return std::ranges::count_if(world.notes, [&](const Note& note) {
    return note.level == level && note.text.starts_with(begin) &&
           note.text.find("no space is left") != std::string::npos;
  });
}

TEST(FailingLedger, AClaimIsRepeatedWithTheNextSweep) {
  World world;
  world.join_engine("e", 1);
  refuse<Claim>(world);
  world.submit({job_body("a")});
  EXPECT_TRUE(world.leases("e").empty());
  // Once for each sweep: an engine must not ask again and again in vain.
  EXPECT_EQ(notes(world, NoteLevel::error, "claiming jobs failed: "), 1);
  world.instead = nullptr;
  world.advance_ms(1'000);
  EXPECT_EQ(world.leases("e").size(), 1u);
}

TEST(FailingLedger, AResultThatIsNotStoredEndsTheBrokerAndIsTakenByTheNext) {
  World world;
  world.join_engine("e", 2);
  world.submit(job_bodies(2));
  const auto leases = world.leases("e");
  ASSERT_EQ(leases.size(), 2u);
  world.instead = [&](const Operation& operation) -> std::optional<Result<Reply>> {
    const auto* finish = std::get_if<Finish>(&operation);
    if (finish == nullptr || finish->lease != leases[1].lease) return std::nullopt;
    return no_space();
  };
  const Ends ends{{completed(leases[0].lease), completed(leases[1].lease)}};
  world.say(e, ends, 5);
  ASSERT_TRUE(world.broker().fatal());
  EXPECT_EQ(world.broker().fatal()->code, Code::disk_full);
  EXPECT_EQ(notes(world, NoteLevel::error, "a result could not be stored: "), 1);
  const auto answer = world.take<Committed>(e).at(0);
  EXPECT_EQ(answer.committed, std::vector<LeaseId>{leases[0].lease});
  EXPECT_TRUE(answer.stale.empty());
  world.instead = nullptr;
  world.restart();
  world.join_engine("e");
  world.say(e, ends, 6);
  EXPECT_FALSE(world.broker().fatal());
  EXPECT_EQ(world.counts().completed, 2u);
  EXPECT_EQ(world.stream().size(), 2u);
}

TEST(FailingLedger, ARenewalThatFailsTakesNoLease) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  refuse<Renew>(world);
  world.beat("e", {lease}, 1);
  EXPECT_EQ(notes(world, NoteLevel::error, "renewing leases failed: "), 1);
  EXPECT_TRUE(world.take<HeartbeatAnswer>(e).at(0).lost.empty());
  world.instead = nullptr;
  world.beat("e", {lease}, 2);
  world.say(e, Ends{{completed(lease)}}, 5);
  EXPECT_EQ(world.take<Committed>(e).at(0).committed, std::vector<LeaseId>{lease});
}

TEST(FailingLedger, LeasesOfADeadEngineThatStayInTheLedgerLapseThere) {
  CoreConfig config;
  World world(config);
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  (void)world.leases("e");
  refuse<GiveBack>(world);
  world.feed(EngineDied{"e"});
  EXPECT_EQ(notes(world, NoteLevel::error, "giving leases back failed: "), 1);
  EXPECT_EQ(world.job("a").state, JobState::leased);
  world.instead = nullptr;
  world.advance_ms(config.lease_ms + 3'000);
  EXPECT_EQ(world.job("a").state, JobState::queued);
  EXPECT_TRUE(world.job("a").suspect);
}

TEST(FailingLedger, JobsOfAnEngineThatLeftDuringItsClaimLapseIfTheyCannotBeGivenBack) {
  CoreConfig config;
  World world(config);
  world.join_engine("e");
  world.submit({job_body("a")});
  world.hold_commits = true;
  world.say(e, Ready{1});
  world.say(e, Goodbye{});
  refuse<GiveBack>(world);
  world.commit();
  EXPECT_EQ(notes(world, NoteLevel::error, "giving leases back failed: "), 1);
  EXPECT_EQ(world.job("a").state, JobState::leased);
  world.instead = nullptr;
  world.hold_commits = false;
  world.advance_ms(config.lease_ms + 3'000);
  EXPECT_EQ(world.job("a").state, JobState::queued);
}

TEST(FailingLedger, DeadlinesAndStartsAreKeptByALaterSweep) {
  World world;
  Job job;
  job.request.prompt = "x";
  job.id = "late";
  job.deadline_us = world.unix_us + 1'000'000;
  world.submit({encode_job(job)});
  job.id = "early";
  job.deadline_us.reset();
  job.not_before_us = world.unix_us + 1'000'000;
  world.submit({encode_job(job)});
  refuse<ExpireJobs, StartJobs>(world);
  world.advance_ms(3'000);
  EXPECT_GE(notes(world, NoteLevel::error, "ending expired jobs failed: "), 1);
  EXPECT_GE(notes(world, NoteLevel::error, "starting jobs failed: "), 1);
  EXPECT_EQ(world.counts().expired, 0u);
  world.instead = nullptr;
  world.advance_ms(2'000);
  EXPECT_EQ(world.counts().expired, 1u);
  world.join_engine("e", 2);
  ASSERT_EQ(world.leases("e").size(), 1u);
  EXPECT_EQ(world.job("early").state, JobState::leased);
}

TEST(FailingLedger, ABrokerThatCouldNotReadItsStateStartsAndLearnsIt) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a"), job_body("b")});
  const auto lease = world.leases("e").at(0).lease;
  refuse<FindLapsed, ListTenants, ReadStream>(world);
  world.restart();
  EXPECT_EQ(notes(world, NoteLevel::error, "reading the live leases failed: "), 1);
  EXPECT_EQ(notes(world, NoteLevel::error, "counting jobs failed: "), 1);
  world.instead = nullptr;
  world.join_engine("e");
  world.beat("e", {lease}, 1);
  EXPECT_TRUE(world.take<HeartbeatAnswer>(e).at(0).lost.empty());
  world.say(e, Ends{{completed(lease)}}, 5);
  EXPECT_EQ(world.take<Committed>(e).at(0).committed, std::vector<LeaseId>{lease});
  world.say(e, Ready{1});
  world.advance_ms(1'000);
  EXPECT_EQ(world.leases("e").at(0).job, "b");
}

TEST(FailingLedger, LapsedLeasesThatCannotBeFoundAreFoundLater) {
  CoreConfig config;
  config.lease_ms = 5'000;
  World world(config);
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  ASSERT_EQ(world.leases("e").size(), 1u);
  world.restart();
  refuse<FindLapsed>(world);
  world.advance_ms(12'000);
  EXPECT_GE(notes(world, NoteLevel::error, "finding lapsed leases failed: "), 1);
  EXPECT_EQ(world.job("a").state, JobState::leased);
  world.instead = nullptr;
  world.advance_ms(12'000);
  EXPECT_EQ(world.job("a").state, JobState::queued);
}

// An error that comes late is told as one that comes at once.
TEST(FailingLedger, AnErrorOfALedgerThatWasAwayIsLogged) {
  CoreConfig config;
  World world(config);
  world.advance_ms(config.lease_ms + 1'000);
  world.hold_commits = true;
  world.advance_ms(2 * config.lease_ms);
  refuse<FindLapsed>(world);
  world.commit();
  EXPECT_EQ(notes(world, NoteLevel::error, "finding lapsed leases failed: "), 1);
}

// The renewal tells the broker that the lease is the engine's. So it counts among those that it
// holds, and a death blames it.
TEST(FailingLedger, ALeaseThatWasNotReadAtTheStartBecomesASuspectIfItsEngineDies) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  refuse<FindLapsed>(world);
  world.restart();
  world.instead = nullptr;
  world.join_engine("e");
  world.beat("e", {lease}, 1);
  world.feed(EngineDied{"e"});
  EXPECT_EQ(world.job("a").state, JobState::queued);
  EXPECT_TRUE(world.job("a").suspect);
}

TEST(FailingLedger, NamesOfModelsThatCannotBeReadOrStoredAreTriedAgain) {
  World world;
  refuse<Append>(world);
  world.join_engine("e");
  EXPECT_EQ(notes(world, NoteLevel::warning, "storing the name of model m failed: "), 1);
  EXPECT_TRUE(world.stream("$models").empty());
  world.instead = nullptr;
  world.join_engine("e");
  EXPECT_EQ(world.stream("$models").size(), 1u);
  world.submit({job_body("a")});
  refuse<ReadStream>(world);
  world.restart();
  EXPECT_EQ(notes(world, NoteLevel::error, "reading the names of known models failed: "), 1);
  world.instead = nullptr;
  world.join_client("c");
  EXPECT_EQ(world.submit({job_body("b")}).at(0).error->code, Code::unknown_model);
  world.join_engine("e");
  EXPECT_FALSE(world.submit({job_body("b")}).at(0).error);
}

TEST(FailingLedger, WhatIsNoLongerKeptGoesWithALaterPass) {
  CoreConfig config;
  config.retention.streams.age_us = 1'000'000;
  World world(config);
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  world.say(e, Ends{{completed(world.leases("e").at(0).lease)}}, 5);
  refuse<Retain>(world);
  world.advance_ms(5'000);
  EXPECT_GE(notes(world, NoteLevel::error, "deleting what is no longer kept failed: "), 1);
  EXPECT_EQ(world.stream().size(), 1u);
  world.instead = nullptr;
  world.advance_ms(2'000);
  EXPECT_TRUE(world.stream().empty());
}

TEST(FailingLedger, ARefusalOfAPushedJobThatCannotBeWrittenIsLogged) {
  World world;
  refuse<Append>(world);
  world.say(Peer{Endpoint::push, {}}, Submit{{job_body("a", "nobody")}});
  EXPECT_EQ(notes(world, NoteLevel::error, "a pushed job was refused (unknown_model"), 1);
  EXPECT_EQ(world.broker().counters().rejected, 0u);
  EXPECT_TRUE(world.broker().accepts_push());
}

}  // namespace
}  // namespace millrace::broker::testing
