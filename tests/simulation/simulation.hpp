#pragma once
// Runs the whole broker under simulated faults, determined by a seed. The outcome lists the rules
// that were broken; an empty list means that the run passed.
#include <cstdint>
#include <string>
#include <vector>

#include "tests/simulation/planted_bugs.hpp"

namespace millrace::broker::simulation {

struct Outcome {
  std::vector<std::string> violations;
  std::uint64_t jobs = 0, completed = 0, failed = 0, cancelled = 0;
  std::uint64_t engine_deaths = 0, broker_restarts = 0;
  std::uint64_t store_faults = 0;           // times that the store was unavailable
  std::uint64_t disk_faults = 0;            // failing calls, and full disks
  std::uint64_t flips = 0;                  // bodies of jobs with a flipped bit
  std::uint64_t links_cut = 0, pauses = 0;  // of peers; of the broker's process
  std::uint64_t excused = 0;                // times that a job waited in an engine that died
  std::uint64_t queue_full = 0;             // jobs refused because many of their tenant wait
  std::uint64_t at_most_leases = 0;         // commits after which a tenant held all that it may
  std::uint64_t shares_compared = 0;        // claims, while two tenants waited
  std::uint64_t share_bounds = 0;           // how often one of two got as much as their bound is
  std::uint64_t overtaken = 0;              // times that a job was by a later one
  std::uint64_t turns = 0;                  // of clients and engines to another of several brokers
  std::uint64_t carried_over = 0;           // leases that their engine took to another broker
  std::uint64_t inherited = 0;              // leases that a broker took back of one that was gone
  std::uint64_t brokers_left = 0;           // in order
  std::uint64_t outages = 0;                // of the database, for all brokers
  std::uint64_t most_deaths = 0;            // that one job has caused
  std::int64_t simulated_us = 0;

  void add(const Outcome& other);  // the counts of several runs
};

// One run in `disk_each` stands on a disk, and every run of a bug that needs one. In one in
// `shared_each` several brokers use one store, and in every run of a bug that needs them.
inline constexpr std::uint64_t disk_each = 8, shared_each = 4;
Outcome simulate(std::uint64_t seed, Bug bug = Bug::none);

}  // namespace millrace::broker::simulation
