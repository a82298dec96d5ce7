// Random jobs in random engines. Whatever the batch, the chunks, the pool, the kernel variant and
// the cancels of other jobs, each job gives the tokens and logprob bits that it gives alone.
#include "tests/unit/engine/random_jobs.hpp"

namespace millrace::engine {
namespace {

EngineOptions random_options(Draw& draw, std::uint64_t token_bytes) {
  EngineOptions options;
  options.max_batch = 1 + below(draw, 16);
  options.step_tokens = options.max_batch + below(draw, 80);
  options.prefill_chunk = 1 + below(draw, one_of(draw, {4u, 40u, 300u}));
  options.kv_memory_bytes =
      token_bytes * one_of(draw, {400u, 420u, 2000u});  // the longest job needs 399
  options.prefix_cache = below(draw, 3) > 0;
  options.kernel_variant = one_of<std::string>(draw, {"cpu", "cpu", "generic"});
  if (!millrace::testing::has_cpu_family()) options.kernel_variant = "generic";
  return options;
}

TEST_F(TinyEngine, RandomCompanyNeverShows) {
  constexpr std::uint32_t jobs = 40, rounds = 6;
  const auto roomy = create(tiny_vocabulary);
  ASSERT_TRUE(roomy) << roomy.error().text();
  std::vector<Ended> alone;
  for (std::uint32_t i = 0; i < jobs; ++i) alone.push_back(ended(run_one(**roomy, random_job(i))));
  const std::uint64_t token_bytes = limits::MiB / (*roomy)->info().kv_pool_tokens;

  std::uint64_t pauses = 0, prefix_tokens = 0;
  std::uint32_t most_rows = 0;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    Draw draw(1000 + round);
    const EngineOptions options = random_options(draw, token_bytes);
    const auto engine = create(tiny_vocabulary, "", options);
    ASSERT_TRUE(engine) << engine.error().text();
    std::vector<Arrival> arrivals;
    for (std::uint32_t i = 0; i < jobs; ++i) {
      arrivals.push_back({static_cast<int>(below(draw, 20)), i, random_job(i), -1,
                          round % 2 == 0 ? limits::priority_default : below(draw, 5)});
    }
    for (std::uint32_t i = 0; i < 6; ++i) {  // cancelled at some time, or ended before
      const int start = static_cast<int>(below(draw, 60));
      arrivals.push_back(
          {start, 100 + i, random_job(100 + i), start + static_cast<int>(below(draw, 30))});
    }
    std::shuffle(arrivals.begin(), arrivals.end(), draw);
    const JobsRun run = run_jobs(**engine, arrivals);
    pauses += run.pauses;
    prefix_tokens += (*engine)->counters().prefix_tokens;
    most_rows = std::max(most_rows, run.most_rows);
    for (std::uint32_t i = 0; i < jobs; ++i) {
      EXPECT_EQ(ended(run.events.at(i).result), alone[i]) << "round " << round << ", job " << i;
    }
    EXPECT_EQ((*engine)->counters().kv_pages_used, 0u);
  }
  EXPECT_GT(pauses, 0u);
  EXPECT_GT(prefix_tokens, 1000u);
  EXPECT_GE(most_rows, 8u);
}

}  // namespace
}  // namespace millrace::engine
