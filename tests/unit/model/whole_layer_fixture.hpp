#pragma once
// Runs a tiny model with its layers whole and in parts, and compares the bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/model/fingerprint.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {

using testing::ModelRunner;
using testing::Random;
using testing::TinyModel;

using Step = std::vector<ModelRunner::Part>;

// The lengths of sequences, and the steps that compute them.
struct Schedule {
  std::vector<std::uint32_t> lengths;
  std::vector<Step> steps;
};

struct Made {
  std::vector<ModelRunner::Logits> logits;
  std::uint64_t launches = 0;
};

inline Made run(const GgufFile& file, bool whole, const std::string& variant,
                const Schedule& schedule, const std::string& kv = "f16",
                const std::optional<KeyMeans>& means = {},
                const std::optional<kernels::Tuning>& tuning = {},
                const std::function<void(ModelRunner&)>& after_step = {},
                const std::optional<ModelSpec>& spec = {},
                const KernelVariant& kernel_variant = {}) {
  std::uint32_t longest = 0, most = 0;
  for (const std::uint32_t length : schedule.lengths) longest = std::max(longest, length);
  for (const Step& step : schedule.steps) {
    std::uint32_t tokens = 0;
    for (const ModelRunner::Part& part : step) tokens += part.count;
    most = std::max(most, tokens);
  }
  ModelRunner runner(file,
                     {.kv = kv,
                      .key_means = means,
                      .kv_bytes = 64 << 20,
                      .step_tokens = most,
                      .step_outputs = most,
                      .math = MathMode::fast,
                      .whole_layers = whole,
                      .variant = kernel_variant,
                      .tuning = tuning},
                     {.variant = variant}, spec);
  std::vector<Tokens> sequences;
  for (const std::uint32_t length : schedule.lengths) {
    Random random(static_cast<std::uint32_t>(sequences.size()) + 7);
    Tokens tokens(length);
    for (TokenId& id : tokens) id = random.below(70);
    sequences.push_back(std::move(tokens));
  }
  runner.set_sequences(sequences, (longest + 15) / 16);
  const std::uint64_t before = runner.device().launches();
  for (const Step& step : schedule.steps) {
    runner.step(step);
    if (after_step) after_step(runner);
  }
  Made made{.logits = {}, .launches = runner.device().launches() - before};
  for (std::uint32_t s = 0; s < sequences.size(); ++s) made.logits.push_back(runner.logits(s));
  return made;
}

// The first difference between the two, as a readable message.
inline std::string difference(const Made& a, const Made& b) {
  for (std::size_t s = 0; s < a.logits.size(); ++s) {
    for (std::size_t i = 0; i < a.logits[s].size(); ++i) {
      if (a.logits[s][i] != b.logits[s][i]) {
        return "sequence " + std::to_string(s) + ", position " + std::to_string(i);
      }
    }
  }
  return "";
}

inline KeyMeans means_of(const GgufFile& file) {
  const ModelSpec spec = testing::must(read_spec(file));
  const KvShape shape = kv_shape(spec);
  return {.model = hash_model_file(file),
          .shape = shape,
          .values = Random(3).floats(shape.channels(), -1, 1)};
}

// `runs` is the number of launches that the two layers take, however wide a step is.
inline void expect_same(const TinyModel& model, const std::string& variant,
                        const Schedule& schedule, std::uint64_t runs = 1,
                        const std::string& kv = "f16", bool centered = false) {
  const GgufFile file = model.file();
  std::optional<KeyMeans> means;
  if (centered) means = means_of(file);
  const KernelVariant one_launch{.layer_launch_products = ~std::uint64_t{0}};
  const Made whole = run(file, true, variant, schedule, kv, means, {}, {}, {}, one_launch);
  const Made apart = run(file, false, variant, schedule, kv, means);
  EXPECT_EQ(difference(whole, apart), "") << variant << ", " << schedule.steps.size() << " steps";
  // The step has three launches around the layers; this number shows that they ran whole.
  EXPECT_EQ(whole.launches, schedule.steps.size() * (runs + 3)) << variant;
  EXPECT_GE(apart.launches, schedule.steps.size() * (2 * 7 + 3)) << variant;
}

// `rows` sequences of different lengths, which begin in chunks and end in steps of one token each.
inline Schedule decoding(std::uint32_t rows, std::uint32_t longest) {
  constexpr std::uint32_t ends = 4;
  Schedule out;
  for (std::uint32_t s = 0; s < rows; ++s) {
    out.lengths.push_back(longest - s * (longest - ends - 1) / rows);
    out.steps.push_back({{s, 0, out.lengths[s] - ends}});
  }
  for (std::uint32_t i = 0; i < ends; ++i) {
    Step step;
    for (std::uint32_t s = 0; s < rows; ++s) step.push_back({s, out.lengths[s] - ends + i, 1});
    out.steps.push_back(step);
  }
  return out;
}

// One sequence in chunks of these sizes.
inline Schedule chunks(const std::vector<std::uint32_t>& sizes) {
  Schedule out{.lengths = {0}, .steps = {}};
  for (const std::uint32_t size : sizes) {
    out.steps.push_back({{0, out.lengths[0], size}});
    out.lengths[0] += size;
  }
  return out;
}

// Steps with decoding rows, short chunks, and long chunks that end in a tile of one or of several
// tokens, side by side in changing order.
inline Schedule mixed() {
  return {.lengths = {300, 90, 33, 12, 70},
          .steps = {{{0, 0, 200}, {1, 0, 40}},
                    {{2, 0, 1}, {0, 200, 37}, {3, 0, 2}, {1, 40, 1}},
                    {{1, 41, 1}, {2, 1, 25}, {0, 237, 1}, {3, 2, 9}, {4, 0, 68}},
                    {{4, 68, 1}, {3, 11, 1}, {2, 26, 7}, {1, 42, 48}, {0, 238, 61}},
                    {{0, 299, 1}, {4, 69, 1}}}};
}

class WholeLayer : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  }
};

}  // namespace millrace::engine
