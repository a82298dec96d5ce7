// Pauses as clients see them: what they refuse, what they hold back, and what the lists say.
#include <gtest/gtest.h>

#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

const Peer owner = World::client("c");

ChangePause batch(const std::string& name, bool paused = true) {
  return {name, "", false, paused};
}
ChangePause model(const std::string& name, bool paused = true) {
  return {"", name, false, paused};
}
ChangePause everything(bool paused = true) {
  return {"", "", true, paused};
}

class Pauses : public ::testing::Test {
 protected:
  void SetUp() override { world.join_engine("e"); }

  bool change(const ChangePause& what) {
    world.say(owner, what, 5);
    const auto answers = world.take<PauseChanged>(owner);
    EXPECT_EQ(answers.size(), 1u);
    return !answers.empty() && answers[0].changed;
  }
  StatusAnswer status(const StatusRequest& wanted) {
    world.say(owner, wanted, 6);
    const auto answers = world.take<StatusAnswer>(owner);
    return answers.empty() ? StatusAnswer{} : answers.back();
  }
  std::size_t leases() { return world.leases("e").size(); }

  World world;
};

TEST_F(Pauses, ResumingHandsOutAtOnce) {
  world.submit({job_body("a", "m", "b")});
  for (const auto& [pause, resume] :
       {std::pair(batch("b"), batch("b", false)), std::pair(model("m"), model("m", false)),
        std::pair(everything(), everything(false))}) {
    EXPECT_TRUE(change(pause));
    EXPECT_FALSE(change(pause));
    world.say(World::engine("e"), Ready{1});
    EXPECT_EQ(leases(), 0u);
    world.live_ms(3'000, {{"e", {}}});
    EXPECT_EQ(leases(), 0u);
    world.say(World::engine("e"), Ready{1});
    EXPECT_TRUE(change(resume));
    const auto got = world.leases("e");
    ASSERT_EQ(got.size(), 1u) << "without a tick or a message of the engine";
    world.say(World::engine("e"), Release{{got[0].lease}});
  }
}

TEST_F(Pauses, AreRefusedUnlessOneKnownThingIsNamed) {
  world.submit({job_body("a", "m", "b")});
  const auto refusal = [&](const ChangePause& what) {
    world.say(owner, what, 5);
    return world.refusal(owner);
  };
  EXPECT_EQ(refusal({}), Code::invalid_value);
  EXPECT_EQ(refusal({"b", "m", false, true}), Code::invalid_value);
  EXPECT_EQ(refusal({"b", "", true, false}), Code::invalid_value);
  EXPECT_EQ(refusal(batch("nobody")), Code::not_found);
  EXPECT_EQ(refusal(model("nobody")), Code::unknown_model);
  EXPECT_EQ(refusal(model("nobody", false)), Code::unknown_model);
}

TEST_F(Pauses, OutliveARestartAndRunningJobsEnd) {
  world.submit({job_body("a", "m", "b"), job_body("x", "m", "b")});
  world.say(World::engine("e"), Ready{1});
  const LeaseId running = world.leases("e").at(0).lease;
  change(batch("b"));
  world.restart();
  world.join_client("c");
  world.join_engine("e", 5);
  world.live_ms(2'000, {{"e", {running}}});
  EXPECT_EQ(leases(), 0u);
  world.say(World::engine("e"), Ends{{completed(running)}});
  EXPECT_EQ(world.counts("b").completed, 1u);
  world.say(World::engine("e"), Ready{5});
  change(batch("b", false));
  EXPECT_EQ(leases(), 1u);
}

TEST_F(Pauses, AreToldByStatusAndLists) {
  world.submit({job_body("a", "m", "b"), job_body("n", "m")});
  EXPECT_FALSE(status({}).paused);
  change(batch("b"));
  change(model("*"));
  EXPECT_FALSE(status({}).paused);
  EXPECT_EQ(status({}).paused_models, std::vector<std::string>{"*"});
  EXPECT_TRUE(status({"", "b", ""}).paused);
  EXPECT_NE(status({"a", "", ""}).job_waits.find("resume --batch b"), std::string::npos);
  change(model("m"));
  EXPECT_NE(status({"n", "", ""}).job_waits.find("resume --model m"), std::string::npos);
  change(everything());
  EXPECT_NE(status({"n", "", ""}).job_waits.find("resume --all"), std::string::npos);
  EXPECT_TRUE(status({}).paused);
  change(everything(false));
  change(model("m", false));
  world.say(owner, JobsRequest{}, 7);
  const auto jobs = world.take<JobsAnswer>(owner).at(0).jobs;
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_TRUE(jobs[0].paused);
  EXPECT_FALSE(jobs[1].paused);
}

TEST_F(Pauses, ABatchHasNoEstimateWhileItIsPaused) {
  world.submit({job_body("a", "m", "b"), job_body("x", "m", "b")});
  world.say(World::engine("e"), Ready{1});
  world.say(World::engine("e"), Ends{{completed(world.leases("e").at(0).lease)}});
  const auto shown = [&] {
    world.say(owner, BatchesRequest{"b", ""}, 8);
    return world.take<BatchesAnswer>(owner).at(0).batches.at(0);
  };
  EXPECT_TRUE(shown().eta_s);
  change(batch("b"));
  EXPECT_TRUE(shown().paused);
  EXPECT_FALSE(shown().eta_s);
  change(batch("b", false));
  EXPECT_TRUE(shown().eta_s);
  change(everything());
  EXPECT_FALSE(shown().eta_s);
}

// More jobs than one step of a resumption queues, and others behind them.
TEST_F(Pauses, ALargeBatchIsSetAsideAndComesBackWhole) {
  std::vector<Body> jobs;
  for (int i = 0; i < 2'500; ++i) jobs.push_back(job_body("p" + std::to_string(i), "m", "b"));
  for (std::size_t i = 0; i < jobs.size(); i += 500) {
    world.submit({jobs.begin() + static_cast<std::ptrdiff_t>(i),
                  jobs.begin() + static_cast<std::ptrdiff_t>(i) + 500});
  }
  change(batch("b"));
  world.submit({job_body("behind")});
  world.say(World::engine("e"), Ready{1});
  ASSERT_EQ(world.leases("e").at(0).job, "behind");
  change(batch("b", false));
  std::size_t all = 0;
  for (int i = 0; i < 60; ++i) {
    world.say(World::engine("e"), Ready{64});
    Ends ends;
    for (const Lease& lease : world.leases("e")) ends.ends.push_back(completed(lease.lease));
    all += ends.ends.size();
    world.say(World::engine("e"), std::move(ends));
  }
  EXPECT_EQ(all, 2'500u);
}

}  // namespace
}  // namespace millrace::broker::testing
