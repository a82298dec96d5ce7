// Jobs whose prompts begin alike go to the engine that holds their beginning.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "broker/core/prefix_key.hpp"
#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

using Strings = std::vector<std::string>;

std::string beginning(char letter) {
  return std::string(prefix_bytes, letter);
}

Body job_like(const std::string& id) {  // its first letter tells how its prompt begins
  Job job;
  job.id = id;
  job.model = "m";
  job.request.prompt = beginning(id[0]) + id;
  return encode_job(job);
}

void submit(World& world, const Strings& names) {
  std::vector<Body> bodies;
  for (const std::string& id : names) bodies.push_back(job_like(id));
  for (const SubmitAnswer& answer : world.submit(bodies)) EXPECT_FALSE(answer.error);
}

std::string names(const std::vector<Lease>& leases) {
  std::string out;
  for (const Lease& lease : leases) out += (out.empty() ? "" : " ") + lease.job;
  return out;
}

void end(World& world, const std::string& engine, const std::vector<Lease>& leases) {
  Ends ends;
  for (const Lease& lease : leases) ends.ends.push_back(completed(lease.lease));
  world.say(World::engine(engine), ends, 5);
}

TEST(PrefixKey, NamesTheFirstKibibyteOfAPrompt) {
  const std::string a = beginning('a');
  EXPECT_NE(prefix_key(a), 0u);
  EXPECT_EQ(prefix_key(a), prefix_key(a + " and more"));
  EXPECT_NE(prefix_key(a), prefix_key("b" + a));
  EXPECT_EQ(prefix_key(a.substr(1)), 0u);
  EXPECT_LT(prefix_key(a), std::uint64_t{1} << 53);
  const Tokens ids(prefix_bytes / 4, 300);
  EXPECT_NE(prefix_key(ids), 0u);
  Tokens more = ids;
  more.push_back(7);
  EXPECT_EQ(prefix_key(ids), prefix_key(more));
  more.front() = 301;
  EXPECT_NE(prefix_key(ids), prefix_key(more));
  EXPECT_EQ(prefix_key(Tokens(prefix_bytes / 4 - 1, 300)), 0u);
}

TEST(PrefixKey, OfAChatNamesItsFirstMessagesWithTheirRoles) {
  const ChatMessage system{"system", beginning('s')};
  EXPECT_EQ(prefix_key(Chat{system, {"user", "one"}}), prefix_key(Chat{system, {"user", "two"}}));
  EXPECT_NE(prefix_key(Chat{system}), prefix_key(Chat{{"user", beginning('s')}}));
  const ChatMessage brief{"system", "be brief"}, none{"assistant", std::nullopt};
  EXPECT_EQ(prefix_key(Chat{brief, none, {"user", "one"}}), 0u);
  EXPECT_NE(prefix_key(Chat{brief, {"user", beginning('u')}}), 0u);
  EXPECT_NE(prefix_key(Chat{{"u", "ser" + beginning('a')}}),
            prefix_key(Chat{{"us", "er" + beginning('a')}}));
}

TEST(Prefixes, EachEngineGetsTheJobsThatBeginAsItsOwn) {
  World world;
  world.join_engine("e");
  world.join_engine("f");
  submit(world, {"a1", "b1", "a2", "b2", "a3", "b3", "a4", "b4"});
  world.say(World::engine("e"), Ready{2});
  const auto first = world.leases("e");
  EXPECT_EQ(names(first), "a1 a2");
  EXPECT_EQ(first.at(0).prefix, prefix_key(beginning('a')));
  world.say(World::engine("f"), Ready{2});
  EXPECT_EQ(names(world.leases("f")), "b1 b2") << "the broker knows what e was handed";
  world.say(World::engine("e"), Ready{1});
  world.say(World::engine("f"), Ready{1});
  EXPECT_EQ(names(world.leases("e")), "a3");
  EXPECT_EQ(names(world.leases("f")), "b3");
  world.say(World::engine("e"), Ready{9});
  EXPECT_EQ(names(world.leases("e")), "a4 b4") << "an engine with room takes what there is";
}

TEST(Prefixes, HeartbeatsTellWhatAnEngineStillHolds) {
  World world;
  world.join_engine("e");
  world.join_engine("f");
  submit(world, {"a1", "b1", "c1"});
  world.say(World::engine("e"), Ready{3});
  const auto held = world.leases("e");
  ASSERT_EQ(names(held), "a1 b1 c1");
  end(world, "e", held);
  Heartbeat beat;
  beat.steps = 1;
  beat.prefixes = {held[1].prefix};
  world.say(World::engine("e"), beat, 6);
  submit(world, {"b2", "a2", "b3", "c2"});
  world.say(World::engine("f"), Ready{2});
  EXPECT_EQ(names(world.leases("f")), "a2 c2") << "e holds b, and no more the others";
  world.say(World::engine("e"), Ready{2});
  EXPECT_EQ(names(world.leases("e")), "b2 b3");
}

// Engines of earlier versions announce nothing: they hold what their leases begin with.
TEST(Prefixes, AnEngineThatAnnouncesNoneHoldsThoseOfItsLeases) {
  World world;
  world.join_engine("e");
  world.join_engine("f");
  submit(world, {"a1", "b1"});
  world.say(World::engine("e"), Ready{2});
  const auto held = world.leases("e");
  end(world, "e", {held.at(1)});
  world.beat("e", {held.at(0).lease}, 1);
  submit(world, {"a2", "b2"});
  world.say(World::engine("f"), Ready{1});
  EXPECT_EQ(names(world.leases("f")), "b2");
}

TEST(Prefixes, AnEngineThatIsGoneHoldsNothing) {
  World world;
  world.join_engine("e");
  world.join_engine("f");
  submit(world, {"a1", "b1"});
  world.say(World::engine("e"), Ready{1});
  const auto held = world.leases("e");
  ASSERT_EQ(names(held), "a1");
  world.say(World::engine("e"), Goodbye{});
  world.say(World::engine("f"), Ready{2});
  EXPECT_EQ(names(world.leases("f")), "a1 b1");
}

TEST(Prefixes, EnginesOfAnotherModelHaveNoPart) {
  World world;
  world.join_engine("e");
  world.join_engine("other", 0, "n");
  submit(world, {"a1", "b1"});
  Heartbeat beat;
  beat.prefixes = {prefix_key(beginning('a'))};
  world.say(World::engine("other"), beat, 6);
  world.say(World::engine("e"), Ready{1});
  EXPECT_EQ(names(world.leases("e")), "a1");
}

TEST(Prefixes, AHeartbeatWithTooManyIsRefused) {
  World world;
  world.join_engine("e");
  Heartbeat beat;
  for (std::uint64_t i = 0; i <= limits::prefixes_per_engine; ++i) beat.prefixes.push_back(i + 1);
  world.say(World::engine("e"), beat, 6);
  EXPECT_EQ(world.refusal(World::engine("e")), Code::limit_exceeded);
}

}  // namespace
}  // namespace millrace::broker::testing
