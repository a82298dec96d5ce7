#include "tests/simulation/simulation.hpp"

#include <gtest/gtest.h>

#include <array>
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

std::string text(const Outcome& all) {
  const auto shown = std::to_array<std::pair<const char*, std::uint64_t>>({
      {"jobs", all.jobs},
      {"failed", all.failed},
      {"cancelled", all.cancelled},
      {"engine deaths", all.engine_deaths},
      {"broker kills", all.broker_restarts},
      {"times an unavailable store", all.store_faults},
      {"failures of the disk", all.disk_faults},
      {"bits flipped", all.flips},
      {"links cut or held", all.links_cut},
      {"stops of the broker", all.pauses},
      {"times a job that waited in an engine that died", all.excused},
      {"jobs that found their tenant's queue full", all.queue_full},
      {"commits with a tenant at its most leases", all.at_most_leases},
      {"shares compared", all.shares_compared},
      {"bounds of shares taken", all.share_bounds},
      {"times that a job was overtaken", all.overtaken},
      {"turns to another broker", all.turns},
      {"leases that went along", all.carried_over},
      {"leases of brokers that were gone", all.inherited},
      {"brokers that left in order", all.brokers_left},
      {"outages for all brokers", all.outages},
      {"deaths at most by one job", all.most_deaths},
  });
  std::string out;
  for (const auto& [what, count] : shown) {
    out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + what;
  }
  return out;
}

TEST(Simulation, EachJobEndsOnceWhateverHappens) {
  std::uint64_t first = number_from("MILLRACE_SIM_FIRST", 1);
  std::uint64_t count = number_from("MILLRACE_SIM_SEEDS", 500);
  if (std::getenv("MILLRACE_SIM_SEED") != nullptr) {
    first = number_from("MILLRACE_SIM_SEED", 1);
    count = 1;
  }
  Outcome all;
  for (std::uint64_t seed = first; seed < first + count && !HasFailure(); ++seed) {
    const auto outcome = simulate(seed);
    for (const auto& violation : outcome.violations) {
      ADD_FAILURE() << "seed " << seed << ": " << violation
                    << "\nrepeat with MILLRACE_SIM_SEED=" << seed;
    }
    all.add(outcome);
  }
  std::printf("%llu seeds: %s\n", static_cast<unsigned long long>(count), text(all).c_str());
  if (count < 100 || HasFailure()) return;
  // Check that the faults really happened.
  EXPECT_GT(all.engine_deaths, count);
  EXPECT_GT(all.broker_restarts, count / 2);
  EXPECT_GT(all.store_faults, 10 * count);
  EXPECT_GT(all.disk_faults, count / 4);
  EXPECT_GT(all.flips, count / 100);
  EXPECT_GT(all.links_cut, count / 2);
  EXPECT_GT(all.pauses, count / 4);
  EXPECT_GT(all.failed, count / 2);
  EXPECT_GT(all.cancelled, count / 4);
  EXPECT_GT(all.excused, count / 2);
  EXPECT_GT(all.queue_full, count);
  EXPECT_GT(all.at_most_leases, 10 * count);
  EXPECT_GT(all.shares_compared, 10 * count);
  EXPECT_GT(all.share_bounds, count / 10);
  EXPECT_GT(all.overtaken, count);
  EXPECT_GT(all.turns, 5 * count);
  EXPECT_GT(all.carried_over, count);
  EXPECT_GT(all.inherited, count / 2);
  EXPECT_GT(all.brokers_left, count / 10);
  EXPECT_GT(all.outages, count / 20);
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
      {Bug::forgets_commits, "forgets_commits"},
      {Bug::forgets_pauses, "forgets_pauses"},
      {Bug::claims_twice, "claims_twice"},
      {Bug::skips_numbers, "skips_numbers"},
      {Bug::loses_results, "loses_results"},
      {Bug::miscounts, "miscounts"},
      {Bug::miscounts_ready, "miscounts_ready"},
      {Bug::answers_stale_ends, "answers_stale_ends"},
      {Bug::unsynced_commits, "unsynced_commits"},
      {Bug::hides_full_disk, "hides_full_disk"},
      {Bug::serves_damaged_jobs, "serves_damaged_jobs"},
      {Bug::ignores_most_leases, "ignores_most_leases"},
      {Bug::ignores_most_queued, "ignores_most_queued"},
      {Bug::never_rotates, "never_rotates"},
      {Bug::forgets_debts, "forgets_debts"},
      {Bug::reverses_weights, "reverses_weights"},
      {Bug::looks_too_far, "looks_too_far"},
      {Bug::forgets_priorities, "forgets_priorities"},
      {Bug::robs_brokers, "robs_brokers"},
      {Bug::outlives_brokers, "outlives_brokers"},
      {Bug::trusts_lost_commits, "trusts_lost_commits"},
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
