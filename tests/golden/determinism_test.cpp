// Tests the rule of ARCHITECTURE.md, "Determinism": tokens and logprob bits of a job do not depend
// on what shares its batch, on the order of arrival, on chunk sizes, or on pauses.
#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/golden/engine_fixture.hpp"

namespace millrace::engine {
namespace {

Tokens prompt_of(std::uint32_t seed, std::uint32_t size) {
  Tokens out;
  for (std::uint32_t i = 0; i < size; ++i) out.push_back(1000 + (seed * 7919 + i * 104729) % 48000);
  return out;
}

// Jobs of all kinds, so that any two neighbours in a batch differ: greedy, filters of each kind,
// logprobs of both modes or none, prompt logprobs, minimum lengths.
GenerationRequest job(std::uint32_t index) {
  GenerationRequest r;
  r.prompt = prompt_of(index, 5 + index * 17 % 50);
  r.max_tokens = 40 + index % 5;
  r.stops.ignore_eos = true;
  r.sampling.seed = 1000 + index;
  switch (index % 6) {
    case 0:
      r.sampling.temperature = 0;
      break;
    case 1:
      break;
    case 2:
      r.sampling.top_k = 40;
      break;
    case 3:
      r.sampling.top_p = 0.9f;
      break;
    case 4:
      r.sampling.min_p = 0.05f;
      r.sampling.temperature = 0.7f;
      break;
    default:
      r.sampling.temperature = 1.5f;
      r.sampling.top_k = 100;
      r.sampling.top_p = 0.8f;
      break;
  }
  r.logprobs.sampled = index % 4 != 3;
  r.logprobs.top = r.logprobs.sampled ? index % 8 : 0;
  r.logprobs.mode = index % 4 == 2 ? LogprobMode::processed : LogprobMode::raw;
  r.logprobs.prompt = index % 7 == 0;
  r.min_tokens = index % 9;
  return r;
}

constexpr std::uint32_t probes = 4;  // jobs that also run alone

const std::vector<Bits>& alone() {
  static const std::vector<Bits> bits = [] {
    std::vector<Bits> out;
    for (std::uint32_t i = 0; i < probes; ++i) {
      out.push_back(bits_of(run_one(shared_engine(), job(i))));
    }
    return out;
  }();
  return bits;
}

// Runs the jobs; job i arrives before step when(i).
template <class When>
JobsRun run_together(Engine& engine, std::uint32_t count, const When& when) {
  std::vector<Arrival> arrivals;
  for (std::uint32_t i = 0; i < count; ++i) arrivals.push_back({when(i), i, job(i), -1});
  std::stable_sort(arrivals.begin(), arrivals.end(),
                   [](const Arrival& a, const Arrival& b) { return a.step < b.step; });
  return run_jobs(engine, arrivals);
}

class Determinism : public ::testing::TestWithParam<std::uint32_t> {  // prefill chunk
 protected:
  static Engine& engine() {
    static std::unique_ptr<Engine> current;
    static std::uint32_t chunk = 0;
    if (GetParam() == 256) return shared_engine();
    if (chunk != GetParam()) {
      chunk = GetParam();
      current.reset();
      EngineOptions options = model_options();
      options.prefill_chunk = chunk;
      current = open_engine(options);
    }
    return *current;
  }
};
INSTANTIATE_TEST_SUITE_P(Chunk, Determinism, ::testing::Values(16u, 64u, 512u));

TEST_P(Determinism, AmongSevenOthersInThreeOrders) {
  const auto orders = std::vector<std::function<int(std::uint32_t)>>{
      [](std::uint32_t) { return 0; },
      [](std::uint32_t i) { return static_cast<int>(i); },
      [](std::uint32_t i) { return static_cast<int>(7 - i) * 3; },
  };
  // Each chunk size has another order.
  const auto& order = orders[GetParam() == 16 ? 2 : GetParam() == 64 ? 1 : 0];
  const JobsRun run = run_together(engine(), 8, order);
  EXPECT_GE(run.most_rows, 8u);
  for (std::uint32_t i = 0; i < probes; ++i) {
    EXPECT_EQ(bits_of(run.events.at(i).result), alone()[i]) << "job " << i;
  }
}

TEST_P(Determinism, AmongThirtyOneOthers) {
  static std::vector<Bits> first;  // the results with the chunk size that ran first
  const std::uint32_t chunk = GetParam();
  const JobsRun run = run_together(engine(), 32, [&](std::uint32_t i) {
    if (chunk == 16) return 0;
    return static_cast<int>(chunk == 64 ? (i * 5) % 8 : (31 - i) / 4);
  });
  EXPECT_GE(run.most_rows, 32u);
  std::vector<Bits> all;
  for (std::uint32_t i = 0; i < 32; ++i) all.push_back(bits_of(run.events.at(i).result));
  for (std::uint32_t i = 0; i < probes; ++i) EXPECT_EQ(all[i], alone()[i]) << "job " << i;
  if (first.empty()) first = all;
  for (std::uint32_t i = 0; i < 32; ++i) EXPECT_EQ(all[i], first[i]) << "job " << i;
  std::set<Bits> distinct(all.begin(), all.end());
  EXPECT_EQ(distinct.size(), 32u);
}

TEST(Pauses, ATinyPoolGivesTheSameBits) {
  std::vector<Arrival> arrivals;
  for (std::uint32_t i = 0; i < 6; ++i) {
    GenerationRequest r = job(i);
    r.max_tokens = 110;
    arrivals.push_back({0, i, r, -1});
  }
  const JobsRun roomy = run_jobs(shared_engine(), arrivals);
  EngineOptions options = model_options();
  const std::uint64_t token_bytes = options.kv_memory_bytes / shared_engine().info().kv_pool_tokens;
  options.kv_memory_bytes = token_bytes * 416;
  const auto tiny = open_engine(options);
  EXPECT_LE(tiny->info().kv_pool_tokens, 416u);
  const JobsRun tight = run_jobs(*tiny, arrivals);
  EXPECT_EQ(roomy.pauses, 0u);
  EXPECT_GT(tight.pauses, 0u);
  for (std::uint32_t i = 0; i < 6; ++i) {
    EXPECT_EQ(bits_of(tight.events.at(i).result), bits_of(roomy.events.at(i).result)) << i;
  }
  EXPECT_EQ(tiny->counters().kv_pages_used, 0u);
}

TEST(Cancel, AtEachStageDisturbsNoOtherRow) {
  std::vector<Arrival> arrivals;
  for (std::uint32_t i = 0; i < probes; ++i) arrivals.push_back({1, i, job(i), -1});
  for (std::uint32_t i = 0; i < 6; ++i) {  // some never start, some end in prefill, some in decode
    GenerationRequest victim = job(10 + i);
    victim.prompt = prompt_of(50 + i, 120);
    victim.n = 1 + i % 2;
    const int when = std::vector<int>{0, 1, 2, 3, 12, 25}[i];
    arrivals.push_back({0, 100 + i, victim, when});
  }
  const JobsRun run = run_jobs(shared_engine(), arrivals);
  int generated = 0;
  for (std::uint32_t i = 0; i < 6; ++i) {
    const Event& event = run.events.at(100 + i);
    EXPECT_TRUE(event.cancelled) << i;
    generated += event.result.usage.completion_tokens > 0 ? 1 : 0;
    for (const Choice& choice : event.result.choices) {
      EXPECT_EQ(choice.finish_reason, FinishReason::cancelled);
      if (choice.logprobs) {
        EXPECT_EQ(choice.logprobs->token.size(), choice.tokens.size());
      }
    }
  }
  EXPECT_GT(generated, 0);
  EXPECT_LT(generated, 6);
  for (std::uint32_t i = 0; i < probes; ++i) {
    EXPECT_EQ(bits_of(run.events.at(i).result), alone()[i]) << "job " << i;
  }
  EXPECT_EQ(shared_engine().counters().kv_pages_used, 0u);
}

TEST(Samples, AreDistinctReproducibleAndTheFirstIsThatOfOne) {
  GenerationRequest r = job(1);
  r.prompt = prompt_of(1, 40);
  r.max_tokens = 12;
  const Bits one = bits_of(run_one(shared_engine(), r));
  r.n = 4;
  const GenerationResult four = run_one(shared_engine(), r);
  EXPECT_EQ(bits_of(four), bits_of(run_one(shared_engine(), r)));
  std::set<Tokens> distinct;
  for (const Choice& choice : four.choices) distinct.insert(choice.tokens);
  EXPECT_EQ(distinct.size(), 4u);
  GenerationResult first = four;
  first.choices.resize(1);
  EXPECT_EQ(bits_of(first), one);
}

TEST(Seeds, DecideTheText) {
  GenerationRequest r = job(1);
  r.max_tokens = 12;
  const Bits a = bits_of(run_one(shared_engine(), r));
  EXPECT_EQ(bits_of(run_one(shared_engine(), r)), a);
  r.sampling.seed = 4711;
  EXPECT_NE(bits_of(run_one(shared_engine(), r)), a);
}

// Compares a prompt of one token a step, as decoding does it, with the whole prompt at once.
TEST(Prefill, EqualsSingleRowStepsAcrossTheSegmentBorder) {
  GenerationRequest r;
  r.task = Task::score;
  r.prompt = prompt_of(3, 260);
  r.logprobs.top = 2;
  const Bits together = bits_of(run_one(shared_engine(), r));
  EngineOptions options = model_options();
  options.prefill_chunk = 1;
  const auto engine = open_engine(options);
  JobsRun run = run_jobs(*engine, {{0, 1, r, -1}});
  EXPECT_GE(run.steps, 260);
  EXPECT_EQ(bits_of(run.events[1].result), together);
}

}  // namespace
}  // namespace millrace::engine
