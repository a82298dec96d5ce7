#include "tests/simulation/simulation.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

namespace millrace::broker::simulation {
namespace {

std::uint64_t number_from(const char* name, std::uint64_t fallback) {
  const char* text = std::getenv(name);
  return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

TEST(Simulation, EachJobEndsOnceWhateverHappens) {
  std::uint64_t first = number_from("MILLRACE_SIM_FIRST", 1);
  std::uint64_t count = number_from("MILLRACE_SIM_SEEDS", 200);
  if (std::getenv("MILLRACE_SIM_SEED") != nullptr) {
    first = number_from("MILLRACE_SIM_SEED", 1);
    count = 1;
  }
  int most_deaths = 0;
  std::uint64_t excused = 0;
  std::uint64_t deaths = 0, restarts = 0, store_faults = 0, jobs = 0, failed = 0, cancelled = 0;
  for (std::uint64_t seed = first; seed < first + count; ++seed) {
    const auto outcome = simulate(seed);
    for (const auto& violation : outcome.violations) {
      ADD_FAILURE() << "seed " << seed << ": " << violation
                    << "\nrepeat with MILLRACE_SIM_SEED=" << seed;
    }
    deaths += static_cast<std::uint64_t>(outcome.engine_deaths);
    restarts += static_cast<std::uint64_t>(outcome.broker_restarts);
    store_faults += static_cast<std::uint64_t>(outcome.store_faults);
    excused += static_cast<std::uint64_t>(outcome.excused);
    most_deaths = std::max(most_deaths, outcome.most_deaths);
    jobs += outcome.jobs;
    failed += outcome.failed;
    cancelled += outcome.cancelled;
    if (::testing::Test::HasFailure()) break;
  }
  std::printf(
      "%llu seeds: %llu jobs, %llu failed, %llu cancelled, %llu engine deaths, %llu broker "
      "kills, %llu times an unavailable store, %llu times a job that waited in an engine that "
      "died, "
      "at most %d deaths by one job\n",
      static_cast<unsigned long long>(count), static_cast<unsigned long long>(jobs),
      static_cast<unsigned long long>(failed), static_cast<unsigned long long>(cancelled),
      static_cast<unsigned long long>(deaths), static_cast<unsigned long long>(restarts),
      static_cast<unsigned long long>(store_faults), static_cast<unsigned long long>(excused),
      most_deaths);
  if (count < 100) return;
  // Check that the faults really happened.
  EXPECT_GT(deaths, count);
  EXPECT_GT(restarts, count / 2);
  EXPECT_GT(store_faults, 10 * count);
  EXPECT_GT(failed, count / 2);
  EXPECT_GT(cancelled, count / 4);
  EXPECT_GT(excused, count / 2);
}

// Each defect must break a rule within a few seeds.
TEST(Simulation, NoticesPlantedBugs) {
  const std::vector<std::pair<Bug, const char*>> bugs{
      {Bug::blames_nobody, "blames_nobody"},
      {Bug::excuses_forever, "excuses_forever"},
      {Bug::blames_beside_others, "blames_beside_others"},
      {Bug::never_halves, "never_halves"},
      {Bug::runs_all_together, "runs_all_together"},
      {Bug::forgets_alone, "forgets_alone"},
      {Bug::shares_alone, "shares_alone"},
      {Bug::leaves_incident_open, "leaves_incident_open"},
      {Bug::loses_returned_jobs, "loses_returned_jobs"},
  };
  for (const auto& [bug, name] : bugs) {
    std::string noticed;
    for (std::uint64_t seed = 1; seed <= 20 && noticed.empty(); ++seed) {
      const auto outcome = simulate(seed, bug);
      if (outcome.violations.empty()) continue;
      noticed = "seed " + std::to_string(seed) + ": " + outcome.violations.front();
    }
    EXPECT_FALSE(noticed.empty()) << name;
    std::printf("%s: %s\n", name, noticed.c_str());
  }
}

TEST(Simulation, ASeedRepeatsExactly) {
  const auto a = simulate(3), b = simulate(3);
  EXPECT_EQ(a.simulated_us, b.simulated_us);
  EXPECT_EQ(a.engine_deaths, b.engine_deaths);
  EXPECT_EQ(a.completed, b.completed);
}

}  // namespace
}  // namespace millrace::broker::simulation
