// Long jobs first at the tail of a batch: what it gains, in steps of a stub engine.
#include <gtest/gtest.h>

#include <cstdio>
#include <random>

#include "tests/unit/broker/stub_engine.hpp"

namespace millrace::broker::testing {
namespace {

constexpr std::uint32_t rows = 16;

// Most jobs are short and some are long, in any order.
std::vector<std::uint32_t> lengths(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::uint32_t> out;
  for (int i = 0; i < 200; ++i) {
    const auto draw = static_cast<std::uint32_t>(random() % 100);
    out.push_back(draw < 85 ? 20 + draw % 40 : 200 + 6 * (draw - 85));
  }
  return out;
}

// Steps until all jobs of a closed batch have ended.
int makespan(const std::vector<std::uint32_t>& steps, std::uint32_t tail_jobs) {
  CoreConfig config;
  config.tail_jobs = tail_jobs;
  World world(config);
  world.join_engine("before");  // so that its model is known
  world.say(World::engine("before"), Goodbye{});
  std::vector<Body> jobs;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    jobs.push_back(job_of("j" + std::to_string(i), steps[i] + 8, 2, "b"));
  }
  world.submit(std::move(jobs));
  world.say(World::client("c"), ChangeBatch{"b", true, {}}, 3);
  StubEngine engine(world, rows);
  std::size_t ended = 0;
  int made = 0;
  for (; ended < steps.size() && made < 100'000; ++made) ended += engine.step().size();
  return made;
}

TEST(Tail, LongJobsFirstEndABatchSooner) {
  double in_order = 0, longest_first = 0, ideal = 0;
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    const auto steps = lengths(seed);
    for (const std::uint32_t one : steps) ideal += double(one) / rows;
    const int before = makespan(steps, 0), after = makespan(steps, 256);
    EXPECT_LE(after, before) << "seed " << seed;
    in_order += before;
    longest_first += after;
  }
  std::printf("steps of ten batches: %.0f in order, %.0f long jobs first, %.0f at least\n",
              in_order, longest_first, ideal);
  EXPECT_LT(longest_first - ideal, 0.75 * (in_order - ideal));
}

TEST(Tail, OneLongJobAtTheEndDoesNotRunAlone) {
  std::vector<std::uint32_t> steps(64, 20);
  steps.back() = 60;
  const int in_order = makespan(steps, 0), longest_first = makespan(steps, 256);
  EXPECT_EQ(in_order, 120) << "it begins with the last of four waves";
  EXPECT_EQ(longest_first, 100) << "it begins when the queue is as short as the engine's room";
}

}  // namespace
}  // namespace millrace::broker::testing
