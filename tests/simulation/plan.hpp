#pragma once
// What a run is like, drawn from its seed. In some runs the jobs of all tenants wait from the
// beginning for few engines, with few faults, so that the shares of the tenants show.
// Thread safety: plain values and pure functions.
#include <cstddef>
#include <cstdint>

#include "tests/simulation/network.hpp"
#include "tests/simulation/tenants.hpp"

namespace millrace::broker::simulation {

struct Plan {
  TenantTable tenants = tenant_table();
  std::size_t brokers = 1;  // on one store
  int engines = 3;          // alive at the same time
  std::int64_t trouble_us = 2 * second;
  double kill = 0.002;           // chance that the broker is killed after a request to its ledger
  double submit = 0.6;           // that a client submits when it may
  std::uint64_t together = 8;    // jobs of a message at most
  bool unavailable = false;      // the store in memory fails now and then
  std::uint64_t look_ahead = 0;  // places that a claim looks ahead, where these are checked
  bool tails = true;             // the last jobs go out by their cost
  double alike = 0.2;            // that a job's prompt begins like those of others
  std::uint64_t beginnings = 3;
  std::uint64_t priorities = limits::priority_count;
};

// `shared`: several brokers use one store.
inline Plan draw_plan(Dice& dice, bool shared) {
  Plan plan;
  const bool usual = !dice.chance(0.25);
  if (shared) plan.brokers = 2 + dice.below(2);
  if (usual) {
    plan.unavailable = shared || dice.chance(0.5);
    return plan;
  }
  for (auto& [tenant, limits] : plan.tenants) limits = {.weight = limits.weight};
  plan.engines = 1 + static_cast<int>(dice.below(3));
  plan.trouble_us = 20 * second;
  plan.kill = 0.0002;
  plan.submit = 1;
  plan.together = 40;
  plan.look_ahead = 16;
  plan.tails = dice.chance(0.3);
  plan.alike = 0.9;
  plan.beginnings = 12;
  plan.priorities = 1 + dice.below(4);
  return plan;
}

}  // namespace millrace::broker::simulation
