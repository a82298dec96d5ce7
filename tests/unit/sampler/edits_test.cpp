// Compares every edit of logits with plain float64 on the host, beside filters in mixed batches,
// and the state on the device with one built from the history. Also tests listed logprobs, and that
// work nobody requested is skipped.
#include <functional>

#include "tests/unit/sampler/sampler_fixture.hpp"

namespace millrace::engine {
namespace {

class EditedRows : public SamplerVariants {};
INSTANTIATE_TEST_SUITE_P(Variant, EditedRows, ::testing::Values("generic", "cpu"));

constexpr std::uint32_t small_vocabulary = 211;

// A row with its own history and edits; few ids, so that they repeat.
struct Case {
  std::vector<float> row;
  Tokens prompt, output;
  LogitEdits edits;
  Sampling sampling = filters(0);
};

using Spoil = std::function<void(Case&, Dice&)>;

void give_bias(Case& c, Dice& dice) {
  const TokenId first = dice.below(100);
  for (TokenId i = 0; i < 40; ++i) c.edits.bias.push_back({first + 2 * i, dice.between(-9, 9)});
}
void give_repetition(Case& c, Dice& dice) {
  c.edits.repetition = {dice.between(0.5f, 2), dice.scope(), dice.below(3) * 7};
}
void give_presence(Case& c, Dice& dice) {
  c.edits.presence = {dice.between(-2, 2), dice.scope(), dice.below(3) * 5};
}
void give_frequency(Case& c, Dice& dice) {
  c.edits.frequency = {dice.between(-1, 1), dice.scope(), dice.below(3) * 5};
}
void give_dry(Case& c, Dice& dice) {
  c.edits.dry.multiplier = dice.between(0.1f, 2);
  c.edits.dry.allowed_length = 1 + dice.below(3);
  c.edits.dry.window = 1 + dice.below(80);
  c.edits.dry.breaker_ids = {dice.below(30)};
}
void give_ngram(Case& c, Dice& dice) {
  c.edits.no_repeat_ngram = 1 + dice.below(4);
}
void give_allowed(Case& c, Dice& dice) {
  c.edits.allowed = dice.tokens(1 + dice.below(60), small_vocabulary);
}
void give_bad_words(Case& c, Dice& dice) {
  for (int i = 0; i < 20; ++i) c.edits.bad_word_ids.push_back(dice.tokens(1 + dice.below(3), 12));
}
void give_typical(Case& c, Dice& dice) {
  c.sampling.temperature = dice.between(0.5f, 1.5f);
  c.sampling.typical_p = dice.between(0.05f, 0.99f);
}
void give_xtc(Case& c, Dice& dice) {
  c.sampling.temperature = dice.between(0.5f, 1.5f);
  c.sampling.xtc_probability = dice.between(0.3f, 1);
  c.sampling.xtc_threshold = dice.between(0.001f, 0.3f);
}
void give_everything(Case& c, Dice& dice) {
  for (const auto& give :
       {give_bias, give_repetition, give_presence, give_frequency, give_dry, give_bad_words}) {
    give(c, dice);
  }
  c.edits.no_repeat_ngram = 3;
  c.sampling = filters(dice.between(0.5f, 1.5f), dice.below(2) * 50, 0.95f, 0.01f);
  c.sampling.typical_p = dice.between(0.3f, 1);
  c.sampling.xtc_probability = 0.5f;
}

const std::vector<Spoil>& stages() {
  static const std::vector<Spoil> all = {
      give_bias,    give_repetition, give_presence, give_frequency, give_dry,       give_ngram,
      give_allowed, give_bad_words,  give_typical,  give_xtc,       give_everything};
  return all;
}

Case make_case(std::uint32_t index) {
  Dice dice(index * 7919 + 1);
  Case c;
  c.row = random_logits(index, small_vocabulary, index % 3 == 0 ? 1.0f : 3.0f);
  c.prompt = dice.tokens(1 + dice.below(40), 12);
  c.output = dice.tokens(dice.below(40), 12);
  stages()[index % stages().size()](c, dice);
  return c;
}

SampleTask task_of(const Case& c, std::uint32_t index) {
  SampleTask task = sampled(c.sampling, 0x51ed270b0a1f39ull * (index + 1));
  task.slot = index % 1000;
  task.sequence = index;
  task.position = static_cast<std::uint32_t>(c.prompt.size() + c.output.size());
  task.edits = c.edits.any() ? &c.edits : nullptr;
  task.history = {c.prompt, c.output, 128};
  task.logprob = true;
  task.top = 40;
  task.mode = index % 2 == 0 ? LogprobMode::raw : LogprobMode::processed;
  return task;
}

void expect_near(float got, double want, const std::string& what) {
  if (std::isinf(want)) {
    EXPECT_EQ(got, -infinity) << what;
  } else {
    EXPECT_NEAR(got, want, 2e-5 * std::max(1.0, std::fabs(want))) << what;
  }
}

// 1,000 rows of each stage, all stages side by side in each batch.
TEST_P(EditedRows, EqualFloat64OnTheHostInMixedBatches) {
  const std::uint32_t rounds = 11;
  for (std::uint32_t round = 0; round < rounds; ++round) {
    std::vector<Case> cases;
    std::vector<std::vector<float>> rows;
    std::vector<SampleTask> tasks;
    for (std::uint32_t i = 0; i < 1000; ++i) cases.push_back(make_case(round * 1000 + i));
    for (std::uint32_t i = 0; i < 1000; ++i) {
      rows.push_back(cases[i].row);
      tasks.push_back(task_of(cases[i], round * 1000 + i));
    }
    const auto got = run(rows, tasks);
    for (std::uint32_t i = 0; i < 1000; ++i) {
      const std::string name = "row " + std::to_string(round * 1000 + i);
      if (got[i].fault != SampleFault::none) {
        std::vector<float> left = rows[i];
        reference::apply_edits(left, tasks[i]);
        EXPECT_EQ(*std::max_element(left.begin(), left.end()), -infinity) << name;
        continue;
      }
      ASSERT_EQ(got[i].id, reference::draw(rows[i], tasks[i])) << name;
      const bool raw = tasks[i].mode == LogprobMode::raw;
      const auto want = reference::logprobs(rows[i], raw ? nullptr : &tasks[i]);
      expect_near(got[i].logprob, want[got[i].id], name);
      for (std::size_t k = 0; k < got[i].top_ids.size(); ++k) {
        expect_near(got[i].top_logprobs[k], want[got[i].top_ids[k]], name);
      }
    }
  }
}

LogitEdits all_penalties() {
  LogitEdits e;
  e.bias = {{3, 0.5f}};
  e.repetition = {1.2f, PenaltyScope::all, 0};
  e.presence = {0.3f, PenaltyScope::output, 17};
  e.frequency = {0.2f, PenaltyScope::all, 40};
  e.dry.multiplier = 0.5f;
  e.no_repeat_ngram = 5;
  return e;
}

void expect_same_bits(const Outcome& a, const Outcome& b, const std::string& what) {
  const auto bits = [](const Outcome& o) {
    std::vector<std::uint32_t> words = {o.id, static_cast<std::uint32_t>(o.fault), o.stages,
                                        std::bit_cast<std::uint32_t>(o.logprob)};
    words.insert(words.end(), o.top_ids.begin(), o.top_ids.end());
    for (const auto* values : {&o.top_logprobs, &o.listed_logprobs}) {
      for (const float x : *values) words.push_back(std::bit_cast<std::uint32_t>(x));
    }
    return words;
  };
  EXPECT_EQ(bits(a), bits(b)) << what;
}

// Tests the code of devices other than CPUs: reductions over local memory, atomic sums, runs of
// ids.
TEST_P(EditedRows, AGroupGivesTheBitsOfOneWorkItem) {
  if (device_->family() == Family::cpu || device_->info().type == DeviceType::cpu) {
    // test_oclgrind.py runs it on every machine.
    GTEST_SKIP() << "the device is not a GPU: a CPU's compiler does not end over these barriers";
  }
  const std::uint32_t count = 2 * static_cast<std::uint32_t>(stages().size());
  const Tokens listed = {0, 5, 9, 210};
  std::vector<Case> cases;
  std::vector<std::vector<float>> rows;
  std::vector<SampleTask> tasks;
  for (std::uint32_t i = 0; i < count; ++i) cases.push_back(make_case(i));
  for (std::uint32_t i = 0; i < count; ++i) {
    rows.push_back(cases[i].row);
    tasks.push_back(task_of(cases[i], i));
    tasks.back().listed = listed;
    tasks.back().top = 5;
    if (i % 7 == 3) tasks.back().forced = 200 + i % 11;
  }
  std::vector<Outcome> alone;
  for (const std::uint32_t items : {1u, 32u, 128u, 512u}) {
    row_items_ = items;
    sampler_.reset();
    const std::vector<Outcome> got = run(rows, tasks);
    if (items == 1) alone = got;
    for (std::uint32_t i = 0; i < count; ++i) {
      const std::string name = std::to_string(items) + " work-items, row " + std::to_string(i);
      expect_same_bits(got[i], alone[i], name);
      if (got[i].fault == SampleFault::none) {
        EXPECT_EQ(got[i].id, tasks[i].forced.value_or(reference::draw(rows[i], tasks[i]))) << name;
      }
    }
  }
}

// The likeliest tokens are among those of at least some rank, which a group lists. In the second
// row the likeliest of all stand in the shares of four work-items, so that the list does not hold
// them; the third has fewer tokens that may be drawn than are asked for.
TEST_P(EditedRows, AGroupFindsTheLikeliestWhereverTheyStand) {
  if (device_->family() == Family::cpu || device_->info().type == DeviceType::cpu) {
    GTEST_SKIP() << "the device is not a GPU: a CPU's compiler does not end over these barriers";
  }
  constexpr std::uint32_t vocabulary = 3000, items = 32;
  std::vector<std::vector<float>> rows(3, random_logits(5, vocabulary, 1.0f));
  for (std::uint32_t id = 0; id < vocabulary; ++id) {
    if (id % items < 4) rows[1][id] += 100.0f;
    if (id % 1000 != 7) rows[2][id] = -infinity;
  }
  row_items_ = items;
  std::vector<SampleTask> tasks(rows.size(), greedy());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    tasks[i].slot = static_cast<std::uint32_t>(i);
    tasks[i].logprob = true;
    tasks[i].top = 5;
  }
  const std::vector<Outcome> got = run(rows, tasks);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    Tokens order(vocabulary);
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, [&](TokenId a, TokenId b) { return rows[i][a] > rows[i][b]; });
    EXPECT_EQ(got[i].top_ids, Tokens(order.begin(), order.begin() + 5)) << "row " << i;
  }
}

// A sequence of 200 draws. It loses its slot twice and resumes in another one, with the tokens that
// the host knows by then. In between, the host lags one token behind. Some tokens are forced.
TEST_P(EditedRows, StateIsByteEqualToARebuildOverAppendPreemptAndResume) {
  const LogitEdits edits = all_penalties();
  const Tokens prompt = Dice(1).tokens(30, 12);
  Tokens output;
  std::uint32_t slot = 4;
  for (std::uint32_t step = 0; step < 200; ++step) {
    const std::vector<float> row = random_logits(step, small_vocabulary, 0.5f);
    const bool resumed = step == 0 || step == 60 || step == 61 || step == 150;
    if (resumed && step > 0) {  // another sequence draws where it was
      SampleTask other = greedy();
      other.slot = slot;
      other.sequence = 1000 + step;
      run_one(row, other);
      if (step != 150) slot += 3;
    }
    SampleTask task = sampled(filters(1.5f), 99, 30 + step);
    task.sequence = 7;
    task.slot = slot;
    task.edits = &edits;
    const std::size_t known = resumed ? output.size() : output.size() - 1;
    task.history = {prompt, std::span(output).first(known), 230};
    task.logprob = true;
    if (step % 9 == 4) task.forced = step % 12;
    const Outcome got = run_one(row, task);
    const auto state = sampler_->states().read(slot);
    ASSERT_TRUE(state);
    const RowHistory history = {prompt, output, 230};
    ASSERT_EQ(*state, build_row_state(edits, history, true).words) << "step " << step;
    task.history = history;
    ASSERT_EQ(got.id, task.forced.value_or(reference::draw(row, task))) << "step " << step;
    output.push_back(got.id);
  }
}

TEST_P(EditedRows, AStateThatCannotBeBuiltIsSaid) {
  const LogitEdits edits = all_penalties();
  const Tokens prompt = {1, 2, 3};
  run_one(random_logits(1, 50, 1), greedy());
  SampleTask task = greedy();
  task.edits = &edits;
  task.history = {prompt, {}, 10};
  task.position = 5;
  auto logits = device_->allocate(200, "test logits");
  ASSERT_TRUE(logits);
  SampleBatch batch;
  const Status status = sampler_->enqueue(*logits, 50, std::vector{task}, batch);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::internal);
}

TEST_P(EditedRows, StatesOfManyLengthsDoNotTouchEachOther) {
  const LogitEdits edits = all_penalties();
  std::vector<Tokens> prompts;
  for (std::uint32_t i = 0; i < 60; ++i) prompts.push_back(Dice(i).tokens(1 + i * 5 % 47, 12));
  const std::vector<float> row = random_logits(3, small_vocabulary, 1);
  for (std::uint32_t round = 0; round < 6; ++round) {
    std::vector<SampleTask> tasks;
    for (std::uint32_t i = 0; i < 20; ++i) {
      const Tokens& prompt = prompts[(round * 11 + i) % 60];
      SampleTask task = greedy();
      task.slot = i;
      task.sequence = round * 100 + i;
      task.position = static_cast<std::uint32_t>(prompt.size());
      task.edits = &edits;
      task.history = {prompt, {}, task.position + 1 + i * 13 % 90};
      tasks.push_back(task);
    }
    const auto got = run(std::vector(20, row), tasks);
    for (std::uint32_t i = 0; i < 20; ++i) {
      EXPECT_EQ(got[i].id, reference::draw(row, tasks[i]));
      const auto state = sampler_->states().read(i);
      ASSERT_TRUE(state);
      EXPECT_EQ(*state, build_row_state(edits, tasks[i].history, false).words);
    }
  }
}

TEST_P(EditedRows, ListedLogprobsOfDrawnAndScoredTokens) {
  const std::vector<float> row = random_logits(8, 5000, 3);
  const Tokens listed = {4999, 0, 17, 2500};
  SampleTask raw = sampled(filters(1, 10), 5);
  raw.logprob = true;
  raw.top = 3;
  raw.listed = listed;
  SampleTask processed = raw, scored = raw, none = raw;
  processed.mode = LogprobMode::processed;
  scored.draw = false;
  scored.target = 3;
  none.listed = {};
  std::vector<SampleTask> tasks = {raw, none, processed, scored};
  for (std::uint32_t i = 0; i < 4; ++i) tasks[i].slot = i;
  const auto got = run(std::vector(4, row), tasks);
  const auto model = reference::logprobs(row, nullptr), drawn = reference::logprobs(row, &raw);
  EXPECT_TRUE(got[1].listed_logprobs.empty());
  for (const std::size_t i : {0u, 2u, 3u}) {
    ASSERT_EQ(got[i].listed_logprobs.size(), listed.size());
    for (std::size_t k = 0; k < listed.size(); ++k) {
      expect_near(got[i].listed_logprobs[k], (i == 2 ? drawn : model)[listed[k]], "listed");
    }
    EXPECT_EQ(got[i].top_ids, got[1].top_ids);
    EXPECT_EQ(got[i].stages & STAGE_LISTED, STAGE_LISTED);
  }
  EXPECT_EQ(got[0].id, got[1].id);
}

TEST_P(EditedRows, CostNothingWhereNobodyAsks) {
  const std::vector<float> row = random_logits(6, 500, 1);
  EXPECT_EQ(run_one(row, greedy()).stages, 0u);
  EXPECT_EQ(run_one(row, sampled(filters(1), 1)).stages, STAGE_NOISE);
  EXPECT_EQ(sampler_->states().bytes(), 0u);
  const std::uint64_t before = device_->launches();
  run_one(row, greedy());
  EXPECT_EQ(device_->launches() - before, 1u);

  const LogitEdits edits = all_penalties();
  const Tokens prompt = {1, 2, 3};
  SampleTask task = greedy();
  task.position = 3;
  task.sequence = 1;
  task.edits = &edits;
  task.history = {prompt, {}, 10};
  EXPECT_EQ(run_one(row, task).stages, STAGE_EDIT);
  EXPECT_EQ(device_->launches() - before, 2u);
  EXPECT_GT(sampler_->states().bytes(), 0u);
  Sampling typical = filters(1);
  typical.typical_p = 0.5f;
  EXPECT_EQ(run_one(row, sampled(typical, 1)).stages, STAGE_NOISE | STAGE_TYPICAL);
  Sampling xtc = filters(1);
  xtc.xtc_probability = 1;
  EXPECT_EQ(run_one(row, sampled(xtc, 1)).stages, STAGE_NOISE | STAGE_XTC);
}

// Tokens do not depend on the other outputs that are requested for their row.
TEST_P(EditedRows, LogprobsNeverChangeTokens) {
  for (std::uint32_t i = 0; i < 110; ++i) {
    const Case c = make_case(i);
    SampleTask plain = task_of(c, i);
    plain.logprob = false;
    plain.top = 0;
    SampleTask asking = task_of(c, i);
    const Tokens listed = {0, 5, 9};
    asking.listed = listed;
    asking.slot = plain.slot + 1;
    asking.mode = LogprobMode::raw;
    SampleTask processed = asking;
    processed.mode = LogprobMode::processed;
    processed.slot = plain.slot + 2;
    const auto got = run(std::vector(3, c.row), {plain, asking, processed});
    EXPECT_EQ(got[0].id, got[1].id) << i;
    EXPECT_EQ(got[0].id, got[2].id) << i;
  }
}

}  // namespace
}  // namespace millrace::engine
