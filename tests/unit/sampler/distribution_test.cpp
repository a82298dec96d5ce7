// Compares draws with the requested distribution: chi-square over 100,000 draws of each setting.
// Seeds are fixed, so a result repeats.
#include "tests/unit/sampler/definitions.hpp"
#include "tests/unit/sampler/sampler_fixture.hpp"

namespace millrace::engine {
namespace {

class Distribution : public SamplerVariants {};
INSTANTIATE_TEST_SUITE_P(Variant, Distribution, ::testing::Values("generic", "cpu"));

struct Setting {
  const char* name;
  Sampling sampling;
  LogitEdits edits;
};

std::vector<Setting> settings() {
  std::vector<Setting> all = {
      {"temperature 0.8", filters(0.8f), {}},
      {"top-k 20", filters(1, 20), {}},
      {"top-p 0.9", filters(1.2f, 0, 0.9f), {}},
      {"min-p 0.1", filters(1, 0, 1, 0.1f), {}},
      {"typical 0.7", filters(1), {}},
      {"XTC", filters(1), {}},
      {"everything", filters(0.9f, 40, 0.95f, 0.02f), {}},
  };
  all[4].sampling.typical_p = 0.7f;
  all[5].sampling.xtc_probability = 0.4f;
  all[5].sampling.xtc_threshold = 0.05f;
  all[6].sampling.typical_p = 0.95f;
  all[6].sampling.xtc_probability = 0.3f;
  all[6].sampling.xtc_threshold = 0.08f;
  all[6].edits.bias = {{5, 1.0f}, {9, -2.0f}};
  all[6].edits.repetition.value = 1.3f;
  all[6].edits.frequency.value = 0.4f;
  return all;
}

// Each token's probability; XTC mixes the distributions with and without its exclusion.
std::vector<double> expected(const std::vector<float>& row, const SampleTask& task) {
  std::vector<double> out(row.size(), 0);
  const double chance = task.sampling.xtc_probability;
  for (const bool excludes : {false, true}) {
    const definition::Share share = definition::share(row, task, excludes);
    EXPECT_EQ(share.doubtful_filters, 0) << "a cut within rounding: take another row";
    for (std::size_t id = 0; id < out.size(); ++id) {
      out[id] += (excludes ? chance : 1 - chance) * share.probability[id];
    }
  }
  return out;
}

TEST_P(Distribution, OneHundredThousandDrawsFollowIt) {
  const std::vector<float> row = random_logits(5, 64, 1.0f);
  const Tokens prompt = {3, 5, 5, 17, 40}, output = {40, 41, 5};
  const std::uint32_t batch = 1000, rounds = 100;
  for (const Setting& setting : settings()) {
    SampleTask task = sampled(setting.sampling, 0);
    task.edits = setting.edits.any() ? &setting.edits : nullptr;
    task.history = {prompt, output, 16};
    std::vector<double> seen(row.size(), 0);
    for (std::uint32_t round = 0; round < rounds; ++round) {
      std::vector<SampleTask> tasks(batch, task);
      for (std::uint32_t i = 0; i < batch; ++i) {
        tasks[i].sampling.seed = 42 + round * batch + i;
        tasks[i].position = 8;
        tasks[i].sequence = round * batch + i;
        tasks[i].slot = i;
      }
      for (const Outcome& o : run(std::vector(batch, row), tasks)) ++seen[o.id];
    }
    double chi = 0, freedom = -1;
    const std::vector<double> want = expected(row, task);
    for (std::size_t id = 0; id < row.size(); ++id) {
      const double expectation = want[id] * batch * rounds;
      if (expectation == 0) {
        EXPECT_EQ(seen[id], 0) << setting.name << " drew " << id;
        continue;
      }
      chi += (seen[id] - expectation) * (seen[id] - expectation) / expectation;
      ++freedom;
    }
    // Five standard deviations of chi-square, and room for its skew at few tokens.
    EXPECT_GT(freedom, 3) << setting.name;
    EXPECT_LT(chi, freedom + 5 * std::sqrt(2 * freedom) + 10) << setting.name;
    EXPECT_GT(chi, freedom - 5 * std::sqrt(2 * freedom)) << setting.name;
  }
}

}  // namespace
}  // namespace millrace::engine
