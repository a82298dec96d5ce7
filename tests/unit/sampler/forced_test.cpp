// A forced token: drawn whatever the row, its edits and its filters say, with logprobs as if it had
// been drawn among all tokens (raw) or were the only one there is (processed).
#include "tests/unit/sampler/sampler_fixture.hpp"

namespace millrace::engine {
namespace {

class ForcedTokens : public SamplerVariants {};
INSTANTIATE_TEST_SUITE_P(Variant, ForcedTokens, ::testing::Values("generic", "cpu"));

constexpr std::uint32_t vocabulary = 1003;

TEST_P(ForcedTokens, AreDrawnWhateverElseATaskAsks) {
  const Tokens ban = {0, 500, vocabulary - 1}, prompt = {500};
  LogitEdits edits;
  edits.allowed = {1, 2};
  edits.bad_word_ids = {{500}};
  Sampling narrow = filters(1.5f, 1, 0.1f, 0.9f);
  narrow.typical_p = 0.1f;
  narrow.xtc_probability = 1;
  std::vector<float> low = random_logits(3, vocabulary, 2);
  low[500] = -infinity;
  std::vector<std::vector<float>> rows;
  std::vector<SampleTask> tasks;
  for (const TokenId forced : ban) {
    for (std::uint32_t kind = 0; kind < 4; ++kind) {
      SampleTask task = kind == 0 ? greedy() : sampled(kind == 1 ? filters(1) : narrow, kind);
      task.forced = forced;
      if (kind == 2) task.banned = ban;
      if (kind == 3) {
        task.edits = &edits;
        task.history = {prompt, {}, 5};
        task.position = 1;
        task.sequence = forced;
      }
      task.slot = static_cast<std::uint32_t>(tasks.size());
      rows.push_back(low);
      tasks.push_back(task);
    }
  }
  const auto got = run(rows, tasks);
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    EXPECT_EQ(got[i].id, *tasks[i].forced) << i;
    EXPECT_EQ(got[i].fault, SampleFault::none) << i;
    EXPECT_TRUE(std::isnan(got[i].logprob)) << i << ": nobody asked";
  }
}

TEST_P(ForcedTokens, HaveTheModelsLogprobOrThatOfTheOnlyToken) {
  const std::vector<float> row = random_logits(5, vocabulary, 2);
  const Tokens listed = {7, 42};
  SampleTask raw = sampled(filters(0.5f, 3), 1), processed, drawn = raw, scored;
  raw.forced = 42;
  raw.logprob = true;
  raw.top = 2;
  raw.listed = listed;
  processed = raw;
  processed.mode = LogprobMode::processed;
  scored.draw = false;
  scored.target = 42;
  scored.top = 2;
  scored.listed = listed;
  std::vector<SampleTask> tasks = {raw, processed, drawn, scored};
  for (std::uint32_t i = 0; i < 4; ++i) tasks[i].slot = i;
  const auto got = run(std::vector(4, row), tasks);
  EXPECT_EQ(std::bit_cast<std::uint32_t>(got[0].logprob),
            std::bit_cast<std::uint32_t>(got[3].logprob))
      << "the bits of scoring the token";
  EXPECT_EQ(got[0].top_ids, got[3].top_ids);
  EXPECT_EQ(got[0].top_logprobs, got[3].top_logprobs);
  EXPECT_EQ(got[0].listed_logprobs, got[3].listed_logprobs);
  EXPECT_EQ(got[1].logprob, 0.0f);
  EXPECT_EQ(got[1].top_ids, (Tokens{42, 0}));
  EXPECT_EQ(got[1].top_logprobs, (std::vector<float>{0, -infinity}));
  EXPECT_EQ(got[1].listed_logprobs, (std::vector<float>{-infinity, 0}));
  EXPECT_EQ(got[2].id, reference::draw(row, drawn)) << "its neighbours draw as ever";
}

TEST_P(ForcedTokens, OfABrokenRowAreAFault) {
  std::vector<float> row(vocabulary, 0.0f);
  row[9] = std::nanf("");
  SampleTask task = greedy();
  task.forced = 3;
  EXPECT_EQ(run_one(row, task).fault, SampleFault::not_a_number);
}

}  // namespace
}  // namespace millrace::engine
