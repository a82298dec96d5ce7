// Random jobs in random engines: whatever the batch, the chunks, the pool, the variant of the
// kernels and the cancels around them, each job's tokens and logprob bits are those that it has
// alone.
#include <random>

#include "tests/golden/engine_fixture.hpp"
#include "tests/unit/engine/tiny_engine.hpp"

namespace millrace::engine {
namespace {

using Draw = std::mt19937;

std::uint32_t below(Draw& draw, std::uint32_t limit) {
  return static_cast<std::uint32_t>(draw()) % limit;
}
template <class T>
T one_of(Draw& draw, std::initializer_list<T> values) {
  return values.begin()[below(draw, static_cast<std::uint32_t>(values.size()))];
}

Penalty random_penalty(Draw& draw, float value) {
  return {value, one_of(draw, {PenaltyScope::all, PenaltyScope::output}),
          one_of(draw, {0u, 1u, 9u, 64u})};
}

LogitEdits random_edits(Draw& draw) {
  LogitEdits e;
  if (below(draw, 3) == 0) e.repetition = random_penalty(draw, one_of(draw, {0.7f, 1.3f}));
  if (below(draw, 3) == 0) e.presence = random_penalty(draw, one_of(draw, {-0.5f, 0.6f}));
  if (below(draw, 3) == 0) e.frequency = random_penalty(draw, one_of(draw, {-0.1f, 0.3f}));
  if (below(draw, 3) == 0) {
    e.dry.multiplier = 0.8f;
    e.dry.allowed_length = 1;
    e.dry.window = one_of(draw, {1u, 30u, 1024u});
  }
  if (below(draw, 4) == 0) e.no_repeat_ngram = 2 + below(draw, 2);
  if (below(draw, 4) == 0) e.bias = {{below(draw, tiny_vocabulary), 3.0f}};
  if (below(draw, 4) == 0) e.bad_word_ids = {{below(draw, tiny_vocabulary)}};
  if (below(draw, 4) == 0) e.bad_words = {"a", "bc"};
  if (below(draw, 6) == 0 && e.no_repeat_ngram == 0) {
    for (TokenId id = 0; id < tiny_vocabulary; id += 2) e.allowed.push_back(id);
  }
  return e;
}

GenerationRequest random_job(std::uint32_t seed) {
  Draw draw(seed);
  Tokens prompt(1 + below(draw, one_of(draw, {20u, 20u, 60u, 290u})));
  for (TokenId& id : prompt) id = below(draw, tiny_vocabulary);
  if (seed % 3 != 0) {  // begins as others of its family do
    Draw family(seed % 3);
    const std::uint32_t shared = below(draw, static_cast<std::uint32_t>(prompt.size()) + 1);
    for (std::uint32_t i = 0; i < shared; ++i) prompt[i] = below(family, tiny_vocabulary);
  }
  GenerationRequest r;
  r.prompt = prompt;
  if (below(draw, 6) == 0) {
    r.task = Task::score;
    r.logprobs.top = below(draw, 5);
    return r;
  }
  r.n = one_of(draw, {1u, 1u, 1u, 3u});
  r.max_tokens = 1 + below(draw, one_of(draw, {24u, 110u}));
  r.min_tokens = below(draw, *r.max_tokens + 1);
  r.sampling.seed = draw();
  r.sampling.temperature = one_of(draw, {0.0f, 0.7f, 1.0f, 1e-3f, 5.0f});
  r.sampling.top_k = one_of(draw, {0u, 0u, 1u, 20u, 1000u});
  r.sampling.top_p = one_of(draw, {1.0f, 1.0f, 0.9f, 0.3f});
  r.sampling.min_p = one_of(draw, {0.0f, 0.0f, 0.1f});
  r.sampling.typical_p = one_of(draw, {1.0f, 1.0f, 0.8f});
  r.sampling.xtc_probability = one_of(draw, {0.0f, 0.0f, 0.5f});
  r.sampling.xtc_threshold = one_of(draw, {0.01f, 0.2f});
  if (below(draw, 2) == 0) r.edits = random_edits(draw);
  r.stops.ignore_eos = below(draw, 2) == 0;
  for (std::uint32_t stops = one_of(draw, {0u, 0u, 1u, 2u}); stops > 0; --stops) {
    r.stops.strings.push_back(std::string(1, static_cast<char>('a' + below(draw, 26))));
    r.stops.token_ids.push_back(below(draw, tiny_vocabulary));
  }
  if (seed % 4 == 0) {  // short prompts that grow long: what makes a small pool pause somebody
    r.prompt = Tokens(prompt.begin(), prompt.begin() + 1 + below(draw, 20) % prompt.size());
    r.max_tokens = 100;
    r.min_tokens = 0;
    r.n = 1;
    r.stops = {.strings = {}, .token_ids = {}, .ignore_eos = true};
  }
  r.logprobs.sampled = below(draw, 2) == 0;
  r.logprobs.prompt = below(draw, 3) == 0;
  if (r.logprobs.sampled || r.logprobs.prompt) {
    r.logprobs.top = below(draw, 6);
    if (below(draw, 2) == 0) r.logprobs.listed = {below(draw, tiny_vocabulary), 3};
  }
  r.logprobs.mode = one_of(draw, {LogprobMode::raw, LogprobMode::processed});
  return r;
}

EngineOptions random_options(Draw& draw, std::uint64_t token_bytes) {
  EngineOptions options;
  options.max_batch = 1 + below(draw, 16);
  options.step_tokens = options.max_batch + below(draw, 80);
  options.prefill_chunk = 1 + below(draw, one_of(draw, {4u, 40u, 300u}));
  options.kv_memory_bytes =
      token_bytes * one_of(draw, {400u, 420u, 2000u});  // the longest job needs 399
  options.prefix_cache = below(draw, 3) > 0;
  options.kernel_variant = one_of<std::string>(draw, {"cpu", "cpu", "generic"});
  return options;
}

TEST_F(TinyEngine, RandomCompanyNeverShows) {
  constexpr std::uint32_t jobs = 40, rounds = 10;
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
