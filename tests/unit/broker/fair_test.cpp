// How engines that serve several tenants are shared: by tokens and weights, within bounds; limits
// of leases and of waiting jobs; the cost of a job.
#include <gtest/gtest.h>

#include <algorithm>

#include "broker/core/job_cost.hpp"
#include "tests/unit/broker/stub_engine.hpp"
#include "tests/unit/broker/world.hpp"

namespace millrace::broker::testing {
namespace {

// A client for each tenant, of the tenant's name, and one engine that serves all.
struct Shared : World {
  explicit Shared(const std::vector<std::string>& tenants, TenantTable limits = {})
      : World(config(tenants, std::move(limits))) {
    for (const std::string& tenant : tenants) {
      keys[client(tenant)] = "key of " + tenant;
      join_client(tenant);
    }
    keys[engine("engine")] = "key of engine";
  }
  static CoreConfig config(const std::vector<std::string>& tenants, TenantTable limits) {
    CoreConfig config;
    config.grants.emplace();
    for (const std::string& tenant : tenants) {
      config.grants->push_back({tenant, tenant, {KeyRole::submit}, "key of " + tenant});
    }
    config.grants->push_back({"engine", "*", {KeyRole::work}, "key of engine"});
    config.tenants = std::move(limits);
    return config;
  }
  // The jobs cost `tokens` to tokens + spread.
  void submit_as(const std::string& tenant, int jobs, std::uint32_t tokens,
                 std::uint32_t spread = 0) {
    for (int i = 0; i < jobs; i += 5'000) {
      std::vector<Body> bodies;
      for (int k = i; k < std::min(jobs, i + 5'000); ++k) {
        const auto more = static_cast<std::uint32_t>(37 * k) % (spread + 1);
        bodies.push_back(job_of(tenant + std::to_string(submitted_++), tokens + more));
      }
      say(client(tenant), Submit{std::move(bodies)}, 7);
    }
  }
  // Hands out jobs one row at a time, as rows end, and returns the jobs of each tenant.
  std::map<std::string, int> serve(int jobs) {
    std::map<std::string, int> served;
    for (int i = 0; i < jobs; ++i) {
      say(engine("engine"), Ready{1});
      const auto given = leases("engine");
      if (given.size() != 1) break;
      ++served[given[0].job.substr(0, 1)];
      say(engine("engine"), Ends{{completed(given[0].lease)}}, 3);
    }
    return served;
  }

 private:
  int submitted_ = 0;
};

int steps_until_ended(StubEngine& engine, char tenant, int jobs) {
  int steps = 0;
  for (; jobs > 0 && steps < 100'000; ++steps) {
    jobs -= static_cast<int>(std::ranges::count_if(
        engine.step(), [&](const std::string& job) { return job.front() == tenant; }));
  }
  return steps;
}

// How much longer ten jobs of one tenant take beside another's 100,000 than alone.
double slowdown(std::uint32_t rows, std::uint32_t spread) {
  constexpr std::uint32_t tokens = 40;
  Shared alone({"a", "b"});
  alone.submit_as("b", 10, tokens, spread);
  StubEngine idle(alone, rows);
  const int steps_alone = steps_until_ended(idle, 'b', 10);

  Shared shared({"a", "b"});
  shared.submit_as("a", 100'000, tokens, spread);
  StubEngine busy(shared, rows);
  for (int i = 0; i < 1'003; ++i) busy.step();
  shared.submit_as("b", 10, tokens, spread);
  return double(steps_until_ended(busy, 'b', 10)) / steps_alone;
}

TEST(Fair, TenJobsBesideAHundredThousandTakeAtMostTwiceTheirTimeAlone) {
  EXPECT_LE(slowdown(64, 0), 2) << "all rows end in the same step";
  EXPECT_LE(slowdown(32, 40), 2) << "rows end one after the other";
}

TEST(Fair, TokensAreSharedAndNotJobs) {
  Shared world({"a", "b"});
  world.join_engine("engine");
  world.submit_as("a", 2'000, 1'000);
  world.submit_as("b", 2'000, 100);
  const auto served = world.serve(1'100);
  // Each takes one turn more than the other at most, and ends it with one job.
  EXPECT_NEAR(served.at("a") * 1'000, served.at("b") * 100, 2 * (quantum_tokens + 1'000));
}

TEST(Fair, WeightsDecideTheShares) {
  TenantTable limits;
  limits["a"].weight = 3;
  limits["*"].weight = 2;
  Shared world({"a", "b", "c"}, limits);
  world.join_engine("engine");
  for (const std::string tenant : {"a", "b", "c"}) world.submit_as(tenant, 3'000, 100);
  const auto served = world.serve(2'870);
  EXPECT_NEAR(served.at("a"), 2'870 * 3 / 7.0, 3 * quantum_tokens / 100.0);
  EXPECT_NEAR(served.at("b"), 2'870 * 2 / 7.0, 3 * quantum_tokens / 100.0);
  EXPECT_NEAR(served.at("c"), 2'870 * 2 / 7.0, 3 * quantum_tokens / 100.0);
}

TEST(Fair, ATenantsFirstJobWaitsOneTurnOfEachOtherTenant) {
  std::vector<std::string> tenants;
  for (char name = 'a'; name <= 'z'; ++name) tenants.emplace_back(1, name);
  Shared world(tenants);
  world.join_engine("engine");
  for (const std::string& tenant : tenants) {
    if (tenant != "m") world.submit_as(tenant, 1'000, 400);
  }
  world.serve(3'000);
  world.submit_as("m", 1, 400);
  // A turn takes one job beyond the quantum at most.
  const int turn = quantum_tokens / 400 + 1;
  EXPECT_EQ(world.serve(25 * turn + 1)["m"], 1);
}

TEST(Fair, WhatATenantTakesAloneIsNotHeldAgainstIt) {
  Shared world({"a", "b"});
  world.join_engine("engine", 200);
  world.submit_as("a", 1'000, 4'000);
  EXPECT_EQ(world.leases("engine").size(), 200u);
  world.submit_as("b", 1'000, 4'000);
  const auto served = world.serve(100);
  EXPECT_NEAR(served.at("a"), served.at("b"), 4);
}

TEST(Fair, AnExpensiveJobCountsInTheNextTurns) {
  Shared world({"a", "b"});
  world.join_engine("engine");
  world.submit_as("a", 10, 40'000);
  world.submit_as("b", 1'000, 400);
  // b takes as many tokens as a's one job before a gets another.
  const auto served = world.serve(110);
  EXPECT_GE(served.at("a"), 1);
  EXPECT_LE(served.at("a"), 2);
}

// a owes nearly 40,000 tokens and holds as many leases as it may. b takes so many jobs of 400 until
// the lease ends.
struct Indebted : Shared {
  static TenantTable one_lease() {
    TenantTable limits;
    limits["a"].leases = 1;
    return limits;
  }
  explicit Indebted(int others) : Shared({"a", "b"}, one_lease()) {
    submit_as("a", 1, 40'000);
    submit_as("a", 1, 400);
    submit_as("b", 2'000, 400);
    join_engine("engine", 2);
    const auto expensive = leases("engine");
    EXPECT_EQ(expensive.at(0).job, "a0");
    EXPECT_EQ(expensive.at(1).job.front(), 'b');
    EXPECT_EQ(serve(others)["b"], others);
    say(engine("engine"), Ends{{completed(expensive.at(0).lease)}}, 3);
  }
};

TEST(Fair, ADebtShrinksWhileOthersTakeTheirPart) {
  Indebted world(50);
  EXPECT_EQ(world.serve(40)["a"], 0) << "half of it is left";
  EXPECT_EQ(world.serve(15)["a"], 1);
}

TEST(Fair, ADebtIsForgottenOnceOthersHadTheirPart) {
  Indebted world(100);
  EXPECT_EQ(world.serve(3)["a"], 1) << "it waits for one turn";
}

TEST(Fair, WhoWaitsAloneOwesNothing) {
  Shared world({"a", "b"});
  world.join_engine("engine");
  world.submit_as("b", 2, 400);
  world.submit_as("a", 1, 40'000);
  world.submit_as("a", 1'000, 400);
  EXPECT_EQ(world.serve(5)["b"], 2) << "the last ones are a's, which waits alone";
  world.submit_as("b", 1'000, 400);
  EXPECT_NEAR(world.serve(40)["a"], 20, 2);
}

TEST(Fair, DebtsShrinkByTheWeights) {
  TenantTable limits;
  limits["idle"].weight = 2;
  limits["y"].weight = 3;
  FairShare share;
  std::map<std::string, std::int64_t> begun;  // turns
  const auto shares_of = [&](const std::vector<std::string>& names) {
    std::vector<const std::string*> waiting;
    for (const std::string& name : names) waiting.push_back(&name);
    ClaimShared claim;
    return share.divide(waiting, limits, claim);
  };
  const auto take = [&](const std::vector<std::string>& names,
                        const std::vector<TakenShare>& taken) {
    SharesAsked asked = shares_of(names);
    std::ranges::sort(asked.shares, {}, &TenantShare::tenant);
    asked.turns.clear();
    for (const std::string& name : names) asked.turns.push_back(begun[name]);
    for (std::size_t i = 0; i < taken.size(); ++i) begun[names[i]] += taken[i].turns;
    ClaimReply reply;
    reply.shares = taken;
    share.settle(asked, reply, limits);
  };
  const auto deficit = [&] {
    const auto shares = shares_of({"idle", "x", "y"}).shares;
    return std::ranges::find(shares, "idle", &TenantShare::tenant)->deficit_tokens;
  };
  take({"idle", "x"}, {{10'000, 1, true}, {256, 1, false}});
  EXPECT_EQ(deficit(), 512 - 10'000);
  take({"x", "y"}, {{1'000, 4, false}, {3'000, 4, false}});
  EXPECT_EQ(deficit(), 512 - 8'000) << "2 of 4 tokens";
  take({"x", "y"}, {{1'000, 4, false}, {0, 0, true}});
  EXPECT_EQ(deficit(), 512 - 6'000) << "2 for each one, y had no jobs";
  share.took_alone("y", 3'000, limits);
  EXPECT_EQ(deficit(), 512 - 4'000);
  take({"x", "y"}, {{100'000, 400, false}, {300'000, 400, false}});
  EXPECT_EQ(deficit(), 0) << "nothing is saved up";
}

TEST(Fair, ClaimsOfSeveralEnginesKeepTheTurns) {
  Shared world({"a", "b"});
  for (const std::string name : {"engine", "e2", "e3", "e4"}) {
    world.keys[World::engine(name)] = "key of engine";
    world.join_engine(name);
  }
  world.submit_as("a", 3'000, 1'000);
  world.submit_as("b", 3'000, 100);
  std::map<char, int> served;
  for (int i = 0; i < 400; ++i) {
    world.hold_commits = true;  // so that the claims of all engines are under way together
    for (const std::string name : {"engine", "e2", "e3", "e4"}) {
      world.say(World::engine(name), Ready{1});
    }
    world.hold_commits = false;
    world.commit();
    for (const std::string name : {"engine", "e2", "e3", "e4"}) {
      for (const Lease& lease : world.leases(name)) {
        ++served[lease.job.front()];
        world.say(World::engine(name), Ends{{completed(lease.lease)}}, 3);
      }
    }
  }
  EXPECT_EQ(served['a'] + served['b'], 1'600);
  EXPECT_NEAR(served['a'] * 1'000, served['b'] * 100, 2 * (quantum_tokens + 4 * 1'000));
}

TEST(Fair, PrioritiesOrderTheJobsOfATenantAndNotTenants) {
  Shared world({"a", "b"});
  world.join_engine("engine");
  world.say(World::client("a"), Submit{{job_of("a-late", 5'000, 4), job_of("a-soon", 5'000, 3)}},
            7);
  world.say(World::client("b"), Submit{{job_of("b-first", 5'000, 0)}}, 7);
  std::vector<std::string> order;
  for (int i = 0; i < 3; ++i) {
    world.say(World::engine("engine"), Ready{1});
    for (const Lease& lease : world.leases("engine")) order.push_back(lease.job);
  }
  EXPECT_EQ(order, (std::vector<std::string>{"a-soon", "b-first", "a-late"}));
}

TEST(TenantLeases, AreLimitedAndHandedOutAsTheyEnd) {
  TenantTable limits;
  limits["a"].leases = 3;
  Shared world({"a", "b"}, limits);
  world.join_engine("engine", 100);
  world.submit_as("a", 10, 100);
  auto held = world.leases("engine");
  ASSERT_EQ(held.size(), 3u);
  world.submit_as("b", 10, 100);
  EXPECT_EQ(world.leases("engine").size(), 10u) << "the limit of one delays no other";
  int served = 0;
  while (!held.empty() && served < 20) {
    const LeaseId lease = held.front().lease;
    held.erase(held.begin());
    world.say(World::engine("engine"), Ends{{completed(lease)}}, 3);
    ++served;
    for (Lease& more : world.leases("engine")) held.push_back(std::move(more));
    EXPECT_LE(held.size(), 3u);
  }
  EXPECT_EQ(served, 10);
}

TEST(TenantLeases, ThatExpireOrComeBackMakeRoom) {
  TenantTable limits;
  limits["a"].leases = 1;
  Shared world({"a"}, limits);
  Job job;
  job.id = "due";
  job.deadline_us = world.unix_us + 2'000'000;
  job.request.prompt = "x";
  job.request.max_tokens = 200;  // the longest, so the first of so few
  world.say(World::client("a"), Submit{{encode_job(job)}}, 7);
  world.submit_as("a", 2, 100);
  world.join_engine("engine", 3);
  auto held = world.leases("engine");
  ASSERT_EQ(held.size(), 1u);
  ASSERT_EQ(held[0].job, "due");
  world.live_ms(4'000, {{"engine", {}}});
  world.say(World::engine("engine"), Ready{3});
  held = world.leases("engine");
  ASSERT_EQ(held.size(), 1u);
  world.say(World::engine("engine"), Release{{held[0].lease}});
  EXPECT_EQ(world.leases("engine").size(), 1u);
}

TEST(TenantQueue, HasItsOwnLimit) {
  TenantTable limits;
  limits["a"].queued = 2;
  Shared world({"a", "b"}, limits);
  for (const std::string tenant : {"a", "b"}) {
    std::vector<Body> jobs;
    for (int i = 0; i < 3; ++i) jobs.push_back(job_of(tenant + std::to_string(i), 100));
    world.say(World::client(tenant), Submit{std::move(jobs)}, 7);
    const auto answers = world.take<Submitted>(World::client(tenant)).at(0).answers;
    EXPECT_FALSE(answers.at(1).error);
    EXPECT_EQ(answers.at(2).error.has_value(), tenant == "a");
    EXPECT_EQ(answers.at(2).error.value_or(Error{}).code,
              tenant == "a" ? Code::overloaded : Error{}.code);
  }
}

TEST(JobCost, IsThePromptAndWhatMayBeGenerated) {
  Job job;
  job.request.prompt = std::string(400, 'x');
  EXPECT_EQ(job_cost_tokens(job), 100u + 16);
  job.request.max_tokens = 50;
  job.request.n = 3;
  EXPECT_EQ(job_cost_tokens(job), 100u + 150);
  job.request.prompt = Tokens(7);
  EXPECT_EQ(job_cost_tokens(job), 7u + 150);
  job.request.prompt = Chat{{"system", std::string(40, 's')}, {"user", std::string(80, 'u')}};
  EXPECT_EQ(job_cost_tokens(job), 30u + 150);
  job.request.max_tokens.reset();
  EXPECT_EQ(job_cost_tokens(job), 30u + 3 * 1'024);
  Job score;
  score.request.task = Task::score;
  EXPECT_EQ(job_cost_tokens(score), 1u);
}

TEST(TenantLimitsText, IsReadOrRefusedWithTheReason) {
  const auto read = parse_tenant_limits("acme:weight=3,leases=64,queued=1000");
  ASSERT_TRUE(read);
  EXPECT_EQ(read->first, "acme");
  EXPECT_EQ(read->second, (TenantLimits{3, 64, 1'000}));
  ASSERT_TRUE(parse_tenant_limits("*:leases=5"));
  EXPECT_EQ(parse_tenant_limits("*:leases=5")->second, (TenantLimits{1, 5, limits::queued_jobs}));
  for (const std::string bad :
       {"", "acme", "acme:", ":weight=3", "acme:weight", "acme:weight=0", "acme:weight=1001",
        "acme:weight=3x", "acme:leases=-1", "acme:share=3", "acme:weight=3,,leases=2",
        "no such name:weight=3", "acme:queued=50000001"}) {
    const auto refused = parse_tenant_limits(bad);
    ASSERT_FALSE(refused) << bad;
    EXPECT_EQ(refused.error().code, Code::usage) << bad;
    EXPECT_FALSE(refused.error().hint.empty()) << bad;
  }
}

TEST(TenantLimitsTable, NamesTenantsAndTheRest) {
  TenantTable table;
  EXPECT_EQ(limits_of(table, "a"), TenantLimits{});
  table["*"].weight = 2;
  table["a"].weight = 5;
  EXPECT_EQ(limits_of(table, "a").weight, 5u);
  EXPECT_EQ(limits_of(table, "b").weight, 2u);
}

}  // namespace
}  // namespace millrace::broker::testing
