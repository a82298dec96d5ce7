// A job's KV policy: which engines get the job, what the answers say about engines, and what
// happens while no engine can run it.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "broker/core/submissions.hpp"
#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

using Strings = std::vector<std::string>;

Body wants(const std::string& id, const std::string& kv, const std::string& model = "m") {
  Job job;
  job.id = id;
  job.model = model;
  job.request.prompt = "say " + id;
  if (!kv.empty()) job.request.kv = kv;
  return encode_job(job);
}

void join(World& world, const std::string& name, const Strings& policies,
          std::uint32_t credit = 8) {
  Hello hello;
  hello.role = Role::engine;
  hello.name = hello.instance = name;
  hello.engine.facts.model = "m";
  hello.engine.kv_policies = policies;
  hello.engine.facts.kv = policies.empty() ? "" : policies.back();
  hello.engine.facts.kv_bytes_per_token = 6120;
  hello.engine.facts.kv_compression = 3.75;
  world.say(World::engine(name), hello, 1);
  (void)world.take<Welcome>(World::engine(name));
  world.say(World::engine(name), Ready{credit});
}

Strings given(World& world, const std::string& engine) {
  Strings out;
  for (const auto& lease : world.leases(engine)) out.push_back(lease.job);
  std::ranges::sort(out);
  return out;
}

StatusAnswer status(World& world, const std::string& job) {
  world.say(World::client("c"), StatusRequest{job, "", ""}, 8);
  auto answers = world.take<StatusAnswer>(World::client("c"));
  return answers.empty() ? StatusAnswer{} : answers.back();
}

TEST(KvPolicyOfAJob, EnginesOfOneModelEachGetOnlyWhatTheyRun) {
  World world;
  join(world, "exact", {"f16", "f16/f16 x30"});
  join(world, "small", {"k5v3", "r5/r3 x30"});
  const auto answers = world.submit({wants("a", "k5v3"), wants("b", "f16"), wants("c", "k5v3", "*"),
                                     wants("d", "f16", "*"), wants("e", "f16/f16 x30")});
  for (const auto& answer : answers) {
    EXPECT_FALSE(answer.error);
    EXPECT_EQ(answer.waits, "");
  }
  EXPECT_EQ(given(world, "exact"), (Strings{"b", "d", "e"}));
  EXPECT_EQ(given(world, "small"), (Strings{"a", "c"}));
}

// The preset given to --kv is the policy, whichever way a job spells it and whatever automatic
// protection changed in single layers.
TEST(KvPolicyOfAJob, MeansTheSameByEveryName) {
  World world;
  join(world, "e", {"k4v3", "f16/f16 x1, r4/r3 x29"});
  world.submit({wants("preset", "k4v3"), wants("pair", "r4/r3"), wants("ends", "r4/r3~0,0"),
                wants("layers", "f16/f16 x1, r4/r3 x29"), wants("unprotected", "k4v3+none"),
                wants("kept", "k4v3+layer:0"), wants("uniform", "r4/r3 x30")});
  EXPECT_EQ(given(world, "e"), (Strings{"ends", "layers", "pair", "preset"}));
  join(world, "f", {"r4/r3+layer:5+layer:2"});
  world.submit({wants("order", "k4v3+layer:2+layer:5")});
  EXPECT_EQ(given(world, "f"), Strings{"order"});
}

TEST(KvPolicyOfAJob, WaitsForAnEngineThatRunsItAndSaysWhoRunsWhat) {
  World world;
  join(world, "e", {"f16"});
  join(world, "g", {"q8"});
  const auto answer = world.submit({wants("a", "r5/r3"), wants("b", "")});
  EXPECT_EQ(answer[0].waits,
            "no engine of model m connected runs kv k5v3: they run f16, q8; start one with --kv "
            "k5v3");
  EXPECT_EQ(answer[1].waits, "");
  EXPECT_EQ(status(world, "a").job_waits, answer[0].waits);
  EXPECT_EQ(status(world, "a").state, JobState::queued);
  world.restart();  // the requirement is in the ledger
  world.join_client("c");
  EXPECT_EQ(status(world, "a").job_waits,
            "no engine of model m is connected, nor one with kv k5v3");
  join(world, "e", {"f16"});
  world.advance_ms(3000);
  EXPECT_EQ(world.job("a").state, JobState::queued);
  join(world, "late", {"k5v3", "r5/r3 x30"});
  EXPECT_EQ(given(world, "late"), Strings{"a"});
  EXPECT_EQ(status(world, "a").job_waits, "");
  const auto engines = status(world, "a").engines;
  const auto late = std::ranges::find(engines, "late", &EngineInfo::name);
  ASSERT_NE(late, engines.end());
  EXPECT_EQ(late->engine.kv_policies, (Strings{"k5v3", "r5/r3 x30"}));
  EXPECT_EQ(late->engine.facts.kv, "r5/r3 x30");
  EXPECT_EQ(late->engine.facts.kv_compression, 3.75);
}

TEST(Fingerprint, EnginesOfAnotherGetNoJobWhereOneIsAskedFor) {
  CoreConfig config;
  config.fingerprint = "one";
  World world(config);
  const auto join_with = [&](const std::string& fingerprint) {
    Hello hello;
    hello.role = Role::engine;
    hello.name = hello.instance = "of " + fingerprint;
    hello.engine.facts.model = "m";
    hello.engine.facts.fingerprint = fingerprint;
    world.say(World::engine(hello.name), hello, 1);
    (void)world.take<Welcome>(World::engine(hello.name));
    world.say(World::engine(hello.name), Ready{8});
  };
  join_with("two");
  world.submit({wants("a", "")});
  EXPECT_EQ(given(world, "of two"), Strings{});
  EXPECT_EQ(status(world, "a").engines.front().engine.facts.fingerprint,
            "two");  // the owner, who refuses this engine, can see it
  join_with("one");
  EXPECT_EQ(given(world, "of one"), Strings{"a"});
}

TEST(KvPolicyOfAJob, ASuspectGoesToAnEngineThatRunsItsPolicy) {
  World world;
  join(world, "first", {"k5v3"});
  world.submit({wants("a", "k5v3"), wants("b", "k5v3")});
  EXPECT_EQ(given(world, "first").size(), 2u);
  world.feed(EngineDied{"first"});
  join(world, "exact", {"f16"});
  world.advance_ms(2000);
  EXPECT_EQ(given(world, "exact"), Strings{});
  join(world, "second", {"k5v3"});
  const auto alone = world.leases("second");
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_TRUE(alone[0].alone);
}

std::vector<LeaseId> numbers(const std::vector<Lease>& leases) {
  std::vector<LeaseId> out;
  for (const auto& lease : leases) out.push_back(lease.lease);
  return out;
}
bool kept_free(const World& world, const std::string& engine) {
  const std::string said = "engine " + engine + " finishes its jobs";
  return std::ranges::any_of(world.notes,
                             [&](const Note& note) { return note.text.starts_with(said); });
}
// The engine ends its first job and asks for another; returns the leases that it gets.
std::vector<Lease> next_job(World& world, const std::string& engine, std::vector<LeaseId>& held) {
  world.say(World::engine(engine), Ends{{completed(held.front())}});
  held.erase(held.begin());
  world.say(World::engine(engine), Ready{1});
  auto given = world.leases(engine);
  for (const auto lease : numbers(given)) held.push_back(lease);
  return given;
}

TEST(KvPolicyOfAJob, ASuspectKeepsNoEngineFromWorkThatCannotRunIt) {
  World world;
  join(world, "a", {"k5v3"}, 1);
  world.submit({wants("s", "k5v3")});
  EXPECT_EQ(given(world, "a"), Strings{"s"});
  join(world, "b", {"f16"}, 2);
  std::vector<Body> plain;
  for (int i = 0; i < 12; ++i) plain.push_back(wants("p" + std::to_string(i), ""));
  world.submit(std::move(plain));
  auto held = numbers(world.leases("b"));
  ASSERT_EQ(held.size(), 2u);
  world.feed(EngineDied{"a"});
  for (int round = 0; round < 3; ++round) {
    world.live_ms(33'000, {{"b", held}});
    EXPECT_EQ(next_job(world, "b", held).size(), 1u) << round;
  }
  EXPECT_FALSE(kept_free(world, "b"));
  EXPECT_TRUE(world.job("s").suspect);
  EXPECT_EQ(world.job("s").state, JobState::queued);
}

TEST(KvPolicyOfAJob, ASuspectReservesAnEngineThatRunsItEvenIfOthersHaveFewerJobs) {
  World world;
  join(world, "a", {"k5v3"}, 1);
  world.submit({wants("s", "k5v3")});
  join(world, "b", {"f16"}, 1);
  join(world, "c", {"k5v3"}, 2);
  world.submit({wants("p0", ""), wants("p1", ""), wants("p2", ""), wants("p3", "f16"),
                wants("p4", "f16"), wants("p5", "k5v3")});
  auto of_b = numbers(world.leases("b")), of_c = numbers(world.leases("c"));
  ASSERT_EQ(of_b.size(), 1u);
  ASSERT_EQ(of_c.size(), 2u);
  world.feed(EngineDied{"a"});
  world.live_ms(33'000, {{"b", of_b}, {"c", of_c}});
  EXPECT_TRUE(kept_free(world, "c"));
  EXPECT_FALSE(kept_free(world, "b"));
  EXPECT_EQ(next_job(world, "b", of_b).size(), 1u);
  EXPECT_TRUE(next_job(world, "c", of_c).empty());
  const auto alone = next_job(world, "c", of_c);
  ASSERT_EQ(alone.size(), 1u);
  EXPECT_TRUE(alone[0].alone);
  EXPECT_EQ(alone[0].job, "s");
}

TEST(KvPolicyOfAJob, AnEngineIsReservedOnlyWhileThereIsASuspectForIt) {
  World world;
  join(world, "a", {"k5v3"}, 2);
  world.submit({wants("s", "k5v3"), wants("any", "")});
  EXPECT_EQ(given(world, "a"), (Strings{"any", "s"}));
  join(world, "b", {"f16"}, 2);
  world.submit({wants("p0", "f16"), wants("p1", "f16"), wants("p2", "f16"), wants("p3", "f16")});
  auto held = numbers(world.leases("b"));
  ASSERT_EQ(held.size(), 2u);
  world.feed(EngineDied{"a"});
  world.live_ms(33'000, {{"b", held}});
  EXPECT_TRUE(kept_free(world, "b"));
  world.say(World::client("c"), Cancel{{"any"}, ""}, 4);
  world.live_ms(2'000, {{"b", held}});
  EXPECT_EQ(next_job(world, "b", held).size(), 1u);
  EXPECT_TRUE(world.job("s").suspect);
}

TEST(KvPolicyOfAJob, ByLayerTheHintNamesTheOptionsThatGiveIt) {
  World world;
  join(world, "e", {"f16"});
  for (const std::string kv : {"f16/f16 x2, r5/r3 x28", "r5/r3 x30, keys centered by 0ab9"}) {
    EXPECT_EQ(
        world.submit({wants("by " + kv, kv)}).at(0).waits,
        "no engine of model m connected runs kv " + kv +
            ": they run f16; start one whose --kv, --kv-protect and --kv-center give this policy");
  }
  EXPECT_EQ(world.submit({wants("ends", "k5v3~2,2")}).at(0).waits,
            "no engine of model m connected runs kv r5/r3~2,2: they run f16; start one with --kv "
            "r5/r3~2,2");
}

TEST(KvPolicyOfAJob, IsReadFromAStoredJob) {
  EXPECT_EQ(columns_of(wants("a", "k5v3"), true).kv, "r5/r3");
  EXPECT_EQ(columns_of(wants("a", "k5v3"), false).kv, "");
  EXPECT_EQ(columns_of(wants("a", "r5/r3 x30"), true).kv, "r5/r3 x30");
  EXPECT_EQ(columns_of(wants("a", ""), true).kv, "");
  EXPECT_EQ(columns_of("no job", true).kv, "");
}

TEST(KvPolicyOfAJob, IsRefusedWhereThereIsNoSuchPolicy) {
  World world;
  join(world, "e", {"f16"});
  for (const char* kv : {"k9v4", "auto", "q8/r4", "f16/f16 x", "f16 x30", "r5/r3 x30,r4/r4 x1"}) {
    Body body = wants("a", "f16");
    const auto at = body.find("f16");
    ASSERT_NE(at, Body::npos);
    body.replace(at - 1, 4, std::string(1, static_cast<char>(0xa0 + std::string(kv).size())) + kv);
    const auto answer = world.submit({body});
    ASSERT_EQ(answer.size(), 1u) << kv;
    ASSERT_TRUE(answer[0].error) << kv;
    EXPECT_EQ(answer[0].error->code, Code::invalid_value) << kv;
    EXPECT_EQ(answer[0].error->message.substr(0, 4), "kv: ") << answer[0].error->message;
    EXPECT_NE(answer[0].error->hint.find("k5v3"), std::string::npos) << kv;
  }
}

// The only engine of an embedded broker refuses itself what it cannot run; no other would come.
TEST(KvPolicyOfAJob, GoesToTheOneEngineThereIs) {
  CoreConfig config;
  config.match_kv = false;
  World world(config);
  join(world, "e", {"f16"});
  world.submit({wants("a", "k5v3")});
  EXPECT_EQ(given(world, "e"), Strings{"a"});
}

}  // namespace
}  // namespace millrace::broker::testing
