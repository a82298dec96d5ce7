// Sessions: hello, versions, roles per message, silence, limits, malformed frames.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

TEST(Session, HelloIsAnsweredWithTheLimits) {
  CoreConfig config;
  config.doorbell = "tcp://127.0.0.1:5572";
  World world(config);
  world.say(World::client("c"), Hello{}, 42);
  const auto welcome = world.take<Welcome>(World::client("c"));
  ASSERT_EQ(welcome.size(), 1u);
  EXPECT_EQ(welcome[0].broker, "broker-1");
  EXPECT_EQ(welcome[0].doorbell, "tcp://127.0.0.1:5572");
  EXPECT_EQ(welcome[0].jobs_per_submit, limits::jobs_per_submit);
}

TEST(Session, NothingIsAnsweredBeforeHello) {
  World world;
  world.say(World::client("c"), StatusRequest{}, 2);
  EXPECT_EQ(world.refusal(World::client("c")), Code::unexpected_message);
  world.say(World::engine("e"), Ready{4});
  EXPECT_EQ(world.refusal(World::engine("e")), Code::unexpected_message);
}

TEST(Session, AnotherMajorVersionIsRefusedByName) {
  World world;
  Hello hello;
  hello.version_min = 7;
  hello.version_max = 9;
  world.say(World::client("c"), hello, 2);
  const auto refused = world.take<Refused>(World::client("c"));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].error.code, Code::unsupported_version);
  EXPECT_NE(refused[0].error.message.find("7 to 9"), std::string::npos);
}

TEST(Session, AVersionRangeThatIncludesOursIsAccepted) {
  World world;
  Hello hello;
  hello.version_min = 1;
  hello.version_max = 9;
  world.say(World::client("c"), hello, 2);
  ASSERT_EQ(world.take<Welcome>(World::client("c")).size(), 1u);
}

TEST(Session, EachEndpointAcceptsItsOwnRoleOnly) {
  World world;
  Hello hello;
  hello.role = Role::engine;
  hello.instance = "e";
  world.say(World::client("x"), hello, 2);
  EXPECT_EQ(world.refusal(World::client("x")), Code::unexpected_message);
  world.say(World::engine("x"), Hello{}, 2);
  EXPECT_EQ(world.refusal(World::engine("x")), Code::unexpected_message);
}

TEST(Session, AnEngineMustNameItsInstance) {
  World world;
  Hello hello;
  hello.role = Role::engine;
  hello.name = "a name is not enough";
  world.say(World::engine("x"), hello, 2);
  EXPECT_EQ(world.refusal(World::engine("x")), Code::missing_field);
}

TEST(Session, MoreEnginesThanTheLimitAreToldWhenToComeBack) {
  World world;
  for (std::uint32_t i = 0; i < limits::engines; ++i) world.join_engine("e" + std::to_string(i));
  Hello hello;
  hello.role = Role::engine;
  hello.instance = "one more";
  hello.engine.facts.model = "m";
  world.say(World::engine("x"), hello, 2);
  const auto refused = world.take<Refused>(World::engine("x"));
  ASSERT_EQ(refused.size(), 1u);
  EXPECT_EQ(refused[0].error.code, Code::overloaded);
  EXPECT_EQ(refused[0].error.retry_ms, limits::retry_room_ms);
}

TEST(Session, ClientsMayNotSendMessagesOfEnginesNorTheReverse) {
  World world;
  world.join_client("c");
  for (const Message& message : std::vector<Message>{Ready{1}, Heartbeat{}, Ends{{completed(1)}},
                                                     Release{{1}}, Welcome{}, Data{}}) {
    world.say(World::client("c"), message, 3);
    EXPECT_EQ(world.refusal(World::client("c")), Code::unexpected_message);
  }
  world.join_engine("e");
  for (const Message& message :
       std::vector<Message>{Submit{{job_body("a", "*")}}, Fetch{}, Cancel{{"a"}, {}},
                            Retry{{"a"}, {}}, StatusRequest{}, Committed{}}) {
    world.say(World::engine("e"), message, 3);
    EXPECT_EQ(world.refusal(World::engine("e")), Code::unexpected_message);
  }
  EXPECT_EQ(world.counts().queued, 0u);
}

TEST(Session, TheTableIsBoundedAndSilenceFreesIt) {
  CoreConfig config;
  config.sessions = 2;
  config.session_idle_ms = 10'000;
  World world(config);
  world.join_client("a");
  world.join_client("b");
  world.say(World::client("c"), Hello{}, 2);
  EXPECT_EQ(world.refusal(World::client("c")), Code::overloaded);
  world.advance_ms(5'000);
  world.say(World::client("b"), StatusRequest{}, 2);
  world.advance_ms(6'000);
  EXPECT_EQ(world.broker().sessions(), 1u);
  world.say(World::client("c"), Hello{}, 2);
  EXPECT_EQ(world.take<Welcome>(World::client("c")).size(), 1u);
  world.say(World::client("a"), StatusRequest{}, 2);
  EXPECT_EQ(world.refusal(World::client("a")), Code::unexpected_message);
}

TEST(Session, InAFullTableTheClientSilentLongestLosesItsSession) {
  CoreConfig config;
  config.sessions = 3;
  World world(config);
  world.join_engine("e");
  world.join_client("a");
  world.advance_ms(1'000);
  world.join_client("b");
  world.advance_ms(8'000);
  world.say(World::client("c"), Hello{}, 2);
  EXPECT_EQ(world.refusal(World::client("c")), Code::overloaded) << "nobody is silent for long";
  world.live_ms(3'000, {{"e", {}}});
  world.say(World::client("c"), Hello{}, 2);
  EXPECT_EQ(world.take<Welcome>(World::client("c")).size(), 1u);
  world.say(World::client("b"), StatusRequest{}, 3);
  EXPECT_EQ(world.take<StatusAnswer>(World::client("b")).size(), 1u);
  world.say(World::client("a"), StatusRequest{}, 3);
  EXPECT_EQ(world.refusal(World::client("a")), Code::unexpected_message)
      << "it has lost its session";
  world.say(World::engine("e"), Ready{1});
  EXPECT_TRUE(world.take<Refused>(World::engine("e")).empty());
  // A client that waits for an answer does not count as silent, however long it waits.
  world.hold_commits = true;
  world.say(World::client("b"), StatusRequest{}, 4);
  world.say(World::client("c"), StatusRequest{}, 4);
  world.advance_ms(11'000);
  world.say(World::client("d"), Hello{}, 2);
  EXPECT_EQ(world.refusal(World::client("d")), Code::overloaded);
}

TEST(Session, GoodbyeAndLostRoutesFreeTheirPlace) {
  World world;
  world.join_client("a");
  world.join_client("b");
  world.say(World::client("a"), Goodbye{});
  world.feed(PeerGone{World::client("b")});
  EXPECT_EQ(world.broker().sessions(), 0u);
}

TEST(Session, BrokenFramesAreRefusedAndCounted) {
  World world;
  world.feed(Malformed{World::client("c"), 17, {Code::unknown_kind, "kind: \"dance\"", {}}});
  EXPECT_EQ(world.refusal(World::client("c")), Code::unknown_kind);
  EXPECT_EQ(world.broker().counters().malformed, 1u);
}

TEST(Session, MessagesThatComeWhileTheBrokerStartsAreKept) {
  World world;
  world.hold_commits = true;
  world.restart();
  world.say(World::client("c"), Hello{}, 1);
  EXPECT_TRUE(world.take<Welcome>(World::client("c")).empty());
  world.commit();
  EXPECT_EQ(world.take<Welcome>(World::client("c")).size(), 1u);
}

TEST(Drain, RefusesNewJobsCommitsEndsAndSaysGoodbye) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a"), job_body("b")});
  const auto lease = world.leases("e").at(0).lease;
  world.feed(Drain{});
  world.say(World::client("c"), Submit{{job_body("d")}}, 3);
  EXPECT_EQ(world.refusal(World::client("c")), Code::draining);
  EXPECT_FALSE(world.broker().stopped());
  world.say(World::engine("e"), Ends{{completed(lease)}});
  EXPECT_EQ(world.take<Committed>(World::engine("e")).size(), 1u);
  EXPECT_TRUE(world.leases("e").empty());
  EXPECT_TRUE(world.broker().stopped());
  EXPECT_EQ(world.take<Goodbye>(World::client("c")).size(), 1u);
  EXPECT_EQ(world.take<Goodbye>(World::engine("e")).size(), 1u);
}

TEST(Drain, WaitsForLeasedJobsNoLongerThanAllowed) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  world.feed(Drain{});
  world.advance_ms(4'000);
  EXPECT_FALSE(world.broker().stopped());
  world.advance_ms(2'000);
  EXPECT_TRUE(world.broker().stopped());
  EXPECT_EQ(world.job("a").state, JobState::leased);
}

TEST(Drain, WaitsForTheCommitOfAcceptedJobs) {
  World world;
  world.join_client("c");
  world.hold_commits = true;
  world.say(World::client("c"), Submit{{job_body("a", "*")}}, 3);
  world.feed(Drain{});
  EXPECT_FALSE(world.broker().stopped());
  world.commit();
  EXPECT_EQ(world.take<Submitted>(World::client("c")).size(), 1u);
  EXPECT_TRUE(world.broker().stopped());
}

TEST(Drain, WaitsForCommitsAsLongAsTheLedgerDoes) {
  World world;
  world.join_client("c");
  world.hold_commits = true;
  world.say(World::client("c"), Submit{{job_body("a", "*")}}, 3);
  world.feed(Drain{});
  world.advance_ms(4'000);
  EXPECT_FALSE(world.broker().overdue());
  world.advance_ms(60'000);
  EXPECT_TRUE(world.broker().overdue());
  EXPECT_FALSE(world.broker().stopped()) << "its commit may only be slow";
  world.commit();
  EXPECT_EQ(world.take<Submitted>(World::client("c")).size(), 1u);
  EXPECT_TRUE(world.broker().stopped());
}

TEST(CutShort, SaysGoodbyeAndTellsWhatWasNotAcknowledged) {
  World world;
  world.join_client("c");
  world.join_engine("e", 1);
  world.say(World::client("c"), Submit{{job_body("done", "*")}}, 2);
  const auto lease = world.leases("e").at(0).lease;
  world.hold_commits = true;
  world.say(World::client("c"), Submit{{job_body("a", "*"), job_body("b", "*")}}, 3);
  world.say(World::client("c"), Submit{{job_body("d", "*")}}, 4);
  world.say({Endpoint::push, {}}, Submit{{job_body("p", "*")}});
  world.say(World::engine("e"), Ends{{completed(lease)}});
  world.feed(CutShort{});
  EXPECT_TRUE(world.broker().stopped());
  EXPECT_EQ(world.take<Goodbye>(World::client("c")).size(), 1u);
  EXPECT_EQ(world.take<Goodbye>(World::engine("e")).size(), 1u);
  EXPECT_EQ(world.take<Submitted>(World::client("c")).size(), 1u) << "of the first submit alone";
  EXPECT_EQ(world.notes_with("not acknowledged: 3 jobs in 2 submits of the client c of tenant "
                             "default, the first of them a; nobody was told"),
            1);
  EXPECT_EQ(world.notes_with("not acknowledged: 1 job in 1 submit of the push socket of tenant "
                             "default, the first of them p; they may be lost"),
            1);
  EXPECT_EQ(world.notes_with("no commit came for 1 result"), 1);
}

TEST(CutShort, TellsNothingWhereEverythingHasItsAnswer) {
  World world;
  world.submit({job_body("a", "*")});
  world.feed(CutShort{});
  EXPECT_TRUE(world.broker().stopped());
  EXPECT_EQ(world.notes_with("not acknowledged"), 0);
  EXPECT_EQ(world.notes_with("no commit"), 0);
}

TEST(Drain, CanAskTheEnginesToLeave) {
  World world;
  world.join_engine("e", 1);
  world.submit({job_body("a")});
  const auto lease = world.leases("e").at(0).lease;
  world.feed(Drain{true});
  const auto told = world.take<HeartbeatAnswer>(World::engine("e"));
  ASSERT_EQ(told.size(), 1u);
  EXPECT_TRUE(told[0].drain);
  world.say(World::engine("e"), Release{{lease}});
  EXPECT_EQ(world.job("a").state, JobState::queued);
  EXPECT_FALSE(world.job("a").suspect);
  EXPECT_TRUE(world.broker().stopped());
}

}  // namespace
}  // namespace millrace::broker::testing
