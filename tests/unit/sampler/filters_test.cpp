// Compares every filter, the bans and the draw with their definitions in float64, in mixed batches:
// which tokens survive, with which probability, and which one is drawn.
#include "tests/unit/sampler/definitions.hpp"
#include "tests/unit/sampler/sampler_fixture.hpp"

namespace millrace::engine {
namespace {

class Filters : public SamplerVariants {};
INSTANTIATE_TEST_SUITE_P(Variant, Filters, ::testing::Values("generic", "cpu"));

struct Row {
  std::vector<float> logits;
  Sampling sampling;
  Tokens banned;
  bool several = false;  // filters, one behind the other
};

using Stage = void (*)(Row&, Dice&);

void greedily(Row& row, Dice&) {
  row.sampling.temperature = 0;
}
void at_a_temperature(Row& row, Dice& dice) {
  row.sampling.temperature = dice.between(0.1f, 3);
}
void with_top_k(Row& row, Dice& dice) {
  row.sampling.top_k = 1 + dice.below(static_cast<std::uint32_t>(row.logits.size()));
}
void with_top_p(Row& row, Dice& dice) {
  row.sampling.top_p = dice.between(0.01f, 0.999f);
}
void with_min_p(Row& row, Dice& dice) {
  row.sampling.min_p = dice.between(0.001f, 0.9f);
}
void with_typical(Row& row, Dice& dice) {
  row.sampling.typical_p = dice.between(0.05f, 0.99f);
}
void with_xtc(Row& row, Dice& dice) {
  row.sampling.xtc_probability = dice.between(0.3f, 1);
  row.sampling.xtc_threshold = dice.between(0.001f, 0.3f);
}
// Adds bans, as min_tokens does for end-of-text tokens.
void with_bans(Row& row, Dice& dice) {
  if (dice.below(2) == 0) row.sampling.temperature = 0;
  row.banned = dice.tokens(1 + dice.below(20), static_cast<std::uint32_t>(row.logits.size()));
  row.banned.push_back(reference::order(row.logits).front());
}
void with_everything(Row& row, Dice& dice) {
  for (const Stage give :
       {with_bans, at_a_temperature, with_top_k, with_top_p, with_min_p, with_typical, with_xtc}) {
    give(row, dice);
  }
  row.sampling.top_k = 5 + dice.below(100);
  row.sampling.min_p = dice.between(0.001f, 0.1f);
  row.several = true;
}

constexpr Stage stages[] = {greedily,     at_a_temperature, with_top_k, with_top_p,     with_min_p,
                            with_typical, with_xtc,         with_bans,  with_everything};

Row make_row(std::uint32_t index, std::uint32_t vocabulary) {
  Dice dice(index * 6271 + 5);
  Row row;
  row.logits = random_logits(index + 70000, vocabulary, index % 2 == 0 ? 1.0f : 3.0f);
  row.sampling = filters(dice.below(2) == 0 ? 1.0f : dice.between(0.5f, 2));
  stages[index % std::size(stages)](row, dice);
  return row;
}

// Compares rows with the definitions. Counts rows that cannot be compared because a filter began
// from tokens that rounding had decided.
class Checker {
 public:
  void row(const Row& row, const SampleTask& task, const Outcome& got, const std::string& name) {
    using definition::Share;
    const Share want = definition::share(row.logits, task, definition::excludes(task));
    ASSERT_EQ(got.fault, SampleFault::none) << name;
    if (want.doubtful_filters > 0) ++doubtful_;
    if (want.doubtful_filters > 0 && row.several) return;
    std::size_t left = 0;
    for (TokenId id = 0; id < row.logits.size(); ++id) {
      if (want.close[id]) continue;
      const float logprob = got.listed_logprobs[id];
      ASSERT_EQ(logprob > -infinity, want.probability[id] > 0) << name << " token " << id;
      if (want.probability[id] == 0 || want.doubtful_filters > 0) continue;
      const double exact = std::log(want.probability[id]);
      ASSERT_NEAR(logprob, exact, 1e-5 * std::max(1.0, std::fabs(exact))) << name;
      ++left;
    }
    if (want.doubtful_filters > 0) return;
    EXPECT_GT(left, 0u) << name;
    const Tokens drawn = definition::drawn(want, task);
    EXPECT_NE(std::find(drawn.begin(), drawn.end(), got.id), drawn.end()) << name;
  }
  std::size_t doubtful() const { return doubtful_; }

 private:
  std::size_t doubtful_ = 0;
};

class Batch {
 public:
  Batch(std::uint32_t first, std::uint32_t count, std::uint32_t vocabulary) : listed_(vocabulary) {
    std::iota(listed_.begin(), listed_.end(), 0u);
    for (std::uint32_t i = 0; i < count; ++i) rows.push_back(make_row(first + i, vocabulary));
    for (std::uint32_t i = 0; i < count; ++i) {
      SampleTask task = sampled(rows[i].sampling, 0x2545f4914f6cdd1dull * (first + i + 1), i % 50);
      task.slot = i;
      task.sequence = first + i;
      task.sample = i % 3;
      task.banned = rows[i].banned;
      task.listed = listed_;
      task.logprob = true;
      task.mode = LogprobMode::processed;
      tasks.push_back(task);
      logits.push_back(rows[i].logits);
    }
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  std::vector<Row> rows;
  std::vector<SampleTask> tasks;
  std::vector<std::vector<float>> logits;

 private:
  Tokens listed_;
};

// 1,000 rows of each stage, all stages side by side in each batch.
TEST_P(Filters, EqualTheirDefinitionsInMixedBatches) {
  const std::uint32_t count = 1000;
  Checker checker;
  for (std::uint32_t round = 0; round < std::size(stages); ++round) {
    const Batch batch(round * count, count, 211);
    const auto got = run(batch.logits, batch.tasks);
    for (std::uint32_t i = 0; i < count; ++i) {
      checker.row(batch.rows[i], batch.tasks[i], got[i],
                  "row " + std::to_string(round * count + i));
    }
  }
  EXPECT_LE(checker.doubtful(), 20u);
}

TEST_P(Filters, EqualTheirDefinitionsOverALargeVocabulary) {
  const Batch batch(90, 2 * std::size(stages), 49152);
  const auto got = run(batch.logits, batch.tasks);
  Checker checker;
  for (std::uint32_t i = 0; i < got.size(); ++i) {
    checker.row(batch.rows[i], batch.tasks[i], got[i], "row " + std::to_string(i));
  }
  // Tokens lie close together here, so that some cuts fall within rounding of one.
  EXPECT_LE(checker.doubtful(), got.size() / 4);
}

}  // namespace
}  // namespace millrace::engine
