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
  int engine_deaths = 0, broker_restarts = 0, store_faults = 0;
  int excused = 0;      // times that a job waited in an engine that died
  int most_deaths = 0;  // that one job has caused
  std::int64_t simulated_us = 0;
};

Outcome simulate(std::uint64_t seed, Bug bug = Bug::none);

}  // namespace millrace::broker::simulation
