#pragma once
// Random jobs of a few families of prompts, over the fake device: siblings, stops, cancels, prompts
// to be scored. Each must end with its own tokens, and the cache pools must be left idle.
#include <string>

#include "tests/unit/scheduler/fake_device.hpp"

namespace millrace::engine {

struct RandomJobs {
  bool siblings = true, priorities = false;
};

// Adds 40 jobs to the loop between its steps, runs it to its end, and expects the tokens of every
// job that was not cancelled. `seed` chooses the families. Returns the number of tokens that the
// jobs have the device compute if they find nothing in the prefix cache.
inline std::uint64_t run_random_jobs(Loop& loop, Random& random, std::uint32_t seed,
                                     const RandomJobs& of) {
  std::map<SequenceId, Tokens> want;
  std::vector<SequenceId> alive;
  std::uint64_t naive = 0;
  for (std::uint32_t i = 0; i < 40; ++i) {
    Tokens prompt = prompt_of(seed * 10 + random() % 3, 40);  // three families
    prompt.resize(1 + random() % 40);
    for (const TokenId token : prompt_of(random() % 5, random() % 10)) prompt.push_back(token);
    const std::uint32_t count = 1 + random() % 30;
    const std::uint32_t siblings = of.siblings && random() % 4 == 0 ? random() % 4 : 0;
    const std::uint32_t priority = of.priorities && random() % 3 == 0 ? random() % 3 : 2;
    const SequenceId id = loop.add(prompt, count, random() % 6 == 0, siblings, priority);
    const bool cancelled = random() % 5 == 0;
    for (SequenceId s = id; s <= id + siblings; ++s) {
      const std::uint32_t stop = 1 + random() % 40;
      loop.stops_at[s] = stop;
      naive += prompt.size() + std::min(stop, count) - 1;
      if (!cancelled) want[s] = expected(prompt, std::min(stop, count));
      if (cancelled) alive.push_back(s);
    }
    for (std::uint32_t k = random() % 5; k > 0; --k) loop.step();
    if (!alive.empty() && random() % 3 == 0) {
      loop.finish(alive.back());
      alive.pop_back();
    }
  }
  loop.run();
  for (const auto& [id, tokens] : want) EXPECT_EQ(loop.drawn[id], tokens);
  for (std::size_t group = 0; group < loop.pools.pools(); ++group) {
    EXPECT_EQ(loop.pools[group].used(), loop.pools[group].idle()) << "group " << group;
  }
  EXPECT_EQ(loop.pool.idle(), loop.scheduler.prefix_pages());
  return naive;
}

// Groups of a random window and little more than the pages that one row needs.
inline std::vector<PoolSize> random_windowed_groups(Random& random, std::uint32_t groups,
                                                    const SchedulerOptions& options,
                                                    std::uint32_t page_tokens) {
  std::vector<PoolSize> out;
  for (; groups > 0; --groups) {
    const std::uint32_t window = 1 + random() % 30;
    const std::uint64_t least = most_window_positions(
        window, std::min(options.prefill_chunk, options.step_tokens), page_tokens);
    const auto pages = static_cast<std::uint32_t>((least + page_tokens - 1) / page_tokens);
    out.push_back({pages + random() % 20, window});
  }
  return out;
}

// Runs random jobs in random pools, one loop a seed; `windowed`: with one or two windowed cache
// groups and jobs of several priorities; `states`: with few states. Hits and pauses must have
// occurred, and copied pages where there are no states.
inline void run_random_families(std::uint32_t seeds, std::uint32_t depth, bool windowed,
                                bool states = false) {
  std::uint64_t saved = 0, pauses = 0, copies = 0;
  for (std::uint32_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Random random(seed);
    const std::uint32_t page = 1u << random() % 4;
    const std::uint32_t batch = 1 + random() % 9;
    SchedulerOptions options{.max_batch = batch,
                             .step_tokens = batch + random() % 30,
                             .prefill_chunk = 1 + random() % 16,
                             .step_outputs = batch + random() % 3,
                             .forecast_tokens = random() % 8};
    options.prefix_cache = random() % 8 > 0;
    auto groups = random_windowed_groups(random, windowed ? 1 + random() % 2 : 0, options, page);
    const std::uint32_t pages = (80 + page - 1) / page + random() % (windowed ? 60 : 30);
    if (states) groups.push_back({1 + random() % (2 * batch), 0, true});
    Loop loop(options, pages, page, depth, groups);
    const std::uint64_t naive = run_random_jobs(loop, random, seed, {.priorities = windowed});
    if (testing::Test::HasFailure()) return;
    if (options.prefix_cache && naive > loop.tokens) saved += naive - loop.tokens;
    pauses += loop.scheduler.pauses();
    copies += loop.copies;
  }
  EXPECT_GT(saved, states ? 5000u : 20000u);
  EXPECT_GT(pauses, 50u);
  if (states) return;
  EXPECT_GT(copies, 50u);
}

}  // namespace millrace::engine
