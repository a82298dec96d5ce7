// Layers in one launch give the same bits as the same operations launched one by one, for every
// type, instruction of the dot products, kind of step, and cut of attention.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/model/fingerprint.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "engine/core/model/operations.hpp"
#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using testing::ModelRunner;
using testing::Random;
using testing::TinyModel;

// A model with heads of 32 channels, or of 64 with biases, so that attention can write whole
// blocks.
TinyModel model_of(TensorType type, bool biases) {
  TinyModel model{.width = 256, .heads = 8, .kv_heads = 4, .ffn_width = 512, .biases = biases};
  if (biases) {
    model.heads = 4;
    model.kv_heads = 1;
  }
  model.type = type;
  return model;
}

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

Made run(const GgufFile& file, bool whole, const std::string& variant, const Schedule& schedule,
         const std::string& kv = "f16", const std::optional<KeyMeans>& means = {},
         const std::optional<kernels::Tuning>& tuning = {},
         const std::function<void(ModelRunner&)>& after_step = {}) {
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
                      .tuning = tuning},
                     {.variant = variant});
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
std::string difference(const Made& a, const Made& b) {
  for (std::size_t s = 0; s < a.logits.size(); ++s) {
    for (std::size_t i = 0; i < a.logits[s].size(); ++i) {
      if (a.logits[s][i] != b.logits[s][i]) {
        return "sequence " + std::to_string(s) + ", position " + std::to_string(i);
      }
    }
  }
  return "";
}

KeyMeans means_of(const GgufFile& file) {
  const ModelSpec spec = testing::must(read_spec(file));
  const KvShape shape = kv_shape(spec);
  const std::size_t values = std::size_t{shape.layers} * shape.kv_heads * shape.head_dim;
  return {
      .model = hash_model_file(file), .shape = shape, .values = Random(3).floats(values, -1, 1)};
}

// `runs` is the number of launches that the two layers take.
void expect_same(const TinyModel& model, const std::string& variant, const Schedule& schedule,
                 std::uint64_t runs = 1, const std::string& kv = "f16", bool centered = false) {
  const GgufFile file = model.file();
  std::optional<KeyMeans> means;
  if (centered) means = means_of(file);
  const Made whole = run(file, true, variant, schedule, kv, means);
  const Made apart = run(file, false, variant, schedule, kv, means);
  EXPECT_EQ(difference(whole, apart), "") << variant << ", " << schedule.steps.size() << " steps";
  // The step has three launches around the layers; this number shows that they ran whole.
  EXPECT_EQ(whole.launches, schedule.steps.size() * (runs + 3)) << variant;
  EXPECT_GE(apart.launches, schedule.steps.size() * (2 * 7 + 3)) << variant;
}

// `rows` sequences of different lengths, which begin in chunks and end in steps of one token each.
Schedule decoding(std::uint32_t rows, std::uint32_t longest) {
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
Schedule chunks(const std::vector<std::uint32_t>& sizes) {
  Schedule out{.lengths = {0}, .steps = {}};
  for (const std::uint32_t size : sizes) {
    out.steps.push_back({{0, out.lengths[0], size}});
    out.lengths[0] += size;
  }
  return out;
}

// Steps with decoding rows, short chunks, and long chunks that end in a tile of one or of several
// tokens, side by side in changing order.
Schedule mixed() {
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

// Every instruction but the best one, which all other tests here use.
TEST_F(WholeLayer, SameBitsForEveryInstruction) {
  for (const Dot dot : all_dots) {
    if (!processor_has(dot) || dot == best_dot()) continue;
    const std::string variant = "cpu-" + std::string(dot_name(dot));
    expect_same(model_of(TensorType::q4_1, false), variant, decoding(5, 40));
    expect_same(model_of(TensorType::q4_1, false), variant, mixed());
  }
}

// The heads of a model and its architecture, which decides how they are rotated.
struct Shape {
  std::uint32_t width, heads, kv_heads;
  const char* architecture = "llama";
};
const std::vector<Shape> shapes{
    {256, 8, 4},           // heads of 32, two a KV head
    {192, 6, 2},           // three
    {256, 2, 2, "qwen2"},  // heads of 128, each with its own
    {256, 4, 1, "qwen2"},  // heads of 64, all on one
    {768, 12, 4},          // heads of 64, three a KV head
    {256, 8, 8},           // heads of 32, each with its own
};

TinyModel model_of(TensorType type, const Shape& shape) {
  TinyModel model{.architecture = shape.architecture,
                  .width = shape.width,
                  .heads = shape.heads,
                  .kv_heads = shape.kv_heads,
                  .ffn_width = 512,
                  .biases = false};
  model.type = type;
  return model;
}

// Covers formats of each kind and each way to share and rotate heads once; the long test covers all
// pairs.
TEST_F(WholeLayer, SameBitsForEveryFormat) {
  const std::pair<TensorType, Shape> cases[] = {{TensorType::q8_0, shapes[0]},
                                                {TensorType::iq4_nl, shapes[1]},
                                                {TensorType::q4_k, shapes[2]},
                                                {TensorType::q2_k, shapes[3]},
                                                {TensorType::q6_k, shapes[0]}};
  for (const auto& [type, shape] : cases) {
    SCOPED_TRACE(traits_of(type).name);
    expect_same(model_of(type, shape), "cpu", decoding(3, 20));
    expect_same(model_of(type, shape), "cpu", mixed());
  }
}

TEST_F(WholeLayer, DISABLED_LongSameBitsForEveryFormatAndShape) {
  for (const TensorType type :
       {TensorType::q8_0, TensorType::q4_0, TensorType::q4_1, TensorType::q5_0, TensorType::q5_1,
        TensorType::iq4_nl, TensorType::nvfp4, TensorType::q2_k, TensorType::q3_k, TensorType::q4_k,
        TensorType::q5_k, TensorType::q6_k}) {
    for (const Shape& shape : shapes) {
      if (shape.width % traits_of(type).block_elements != 0) continue;
      SCOPED_TRACE(std::string(traits_of(type).name) + ", heads of " +
                   std::to_string(shape.width / shape.heads));
      expect_same(model_of(type, shape), "cpu", decoding(3, 20));
      expect_same(model_of(type, shape), "cpu", mixed());
      expect_same(model_of(type, shape), "cpu", chunks({1, 17, 300, 2}));
    }
  }
}

TEST_F(WholeLayer, SameBitsWithBiasesAndOneKvHead) {
  expect_same(model_of(TensorType::q4_1, true), "cpu", decoding(2, 30));
  expect_same(model_of(TensorType::q4_1, true), "cpu", mixed());
}

TEST_F(WholeLayer, SameBitsWhereOneLayerHasBiases) {
  for (const std::string bare : {"blk.0.", "blk.1."}) {
    TinyModel model = model_of(TensorType::q4_1, true);
    for (const char* name :
         {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"}) {
      model.absent.push_back(bare + name + ".bias");
    }
    expect_same(model, "cpu", decoding(2, 30), 2);
  }
}

TEST_F(WholeLayer, SameBitsWithPackedKeysAndValues) {
  expect_same(model_of(TensorType::q4_1, true), "cpu", mixed(), 1, "k5v3");
  // The first layer has its own launch.
  expect_same(model_of(TensorType::q4_1, true), "cpu", decoding(2, 300), 2, "k5v3~1,0");
}

TEST_F(WholeLayer, SameBitsWithCenteredKeysWindowsCapsAndSinks) {
  TinyModel model = model_of(TensorType::q4_1, true);
  model.attention = {.window = 100, .soft_cap = 0.5f, .sinks = true};
  expect_same(model, "cpu", mixed(), 1, "f16", true);
}

TEST_F(WholeLayer, SameBitsWithFloats) {
  expect_same(model_of(TensorType::q4_1, true), "cpu", mixed(), 1, "f32");
}

TEST_F(WholeLayer, SameBitsFromOneRowToMany) {
  for (const std::uint32_t rows : {1u, 2u, 7u, 16u, 17u, 40u}) {
    expect_same(model_of(TensorType::q4_1, false), "cpu", decoding(rows, 50));
  }
}

// Tiles have 12 tokens here. Some chunks leave a remainder, in one case of a single token.
TEST_F(WholeLayer, SameBitsForChunksOfEverySize) {
  expect_same(model_of(TensorType::q4_1, false), "cpu", chunks({1, 2, 7, 17, 64, 300, 512, 13}));
  expect_same(model_of(TensorType::q4_1, false), "cpu", chunks({512, 96, 97, 5}));
}

// Cuts products into chunks by the tuned table's values and by the smallest and largest legal ones.
TEST_F(WholeLayer, SameBitsHoweverItsProductsAreCut) {
  const GgufFile file = model_of(TensorType::q4_1, false).file();
  const Schedule schedule = chunks({100, 17, 41});
  const Made expected = run(file, true, "cpu", schedule);
  const auto key = tuning_key(*testing::open_device({.variant = "cpu"}));
  for (const auto& [pairs, tiles] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {1, 1}, {2, 3}, {3, 16}, {6, 32}, {1000, 1000}}) {
    kernels::Tuning tuning = kernels::tuned_for(key);
    tuning.layer_pairs = pairs;
    tuning.layer_tiles = tiles;
    const Made made = run(file, true, "cpu", schedule, "f16", {}, tuning);
    EXPECT_EQ(difference(made, expected), "") << pairs << " pairs by " << tiles << " tiles";
  }
}

TEST_F(WholeLayer, SameBitsWhereAttentionIsCut) {
  expect_same(model_of(TensorType::q4_1, false), "cpu", decoding(2, 1020));
  // A tile of several tokens and a single token, both cut, in one step.
  expect_same(model_of(TensorType::q4_1, false), "cpu",
              {.lengths = {1020, 1000},
               .steps = {{{0, 0, 1015}}, {{1, 0, 999}}, {{0, 1015, 5}, {1, 999, 1}}}});
}

// A launch accesses weights and pages by their addresses, so they stay until it is done.
TEST_F(WholeLayer, AModelMayGoWhileItsStepRuns) {
  const GgufFile file = model_of(TensorType::q4_1, false).file();
  for (int i = 0; i < 20; ++i) {
    ModelRunner runner(
        file,
        {.kv_bytes = 64 << 20, .step_tokens = 1024, .step_outputs = 1, .math = MathMode::fast});
    runner.set_sequences({Tokens(1024, 7)}, 64);
    runner.step({{0, 0, 1024}}, 1024);  // does not wait for an output
  }
}

// As if a launch had been aborted in each step, with any values in its counters.
TEST_F(WholeLayer, WhatABrokenLaunchLeavesIsPutRight) {
  const GgufFile file = model_of(TensorType::q4_1, false).file();
  const Schedule schedule = decoding(2, 1020);  // attention is cut
  for (const bool whole : {true, false}) {
    const auto break_off = [&](ModelRunner& runner) {
      const auto counters = runner.model().counters();
      EXPECT_EQ(counters.size(), whole ? 3u : 2u);
      for (const Buffer* counter : counters) {
        const std::vector<std::byte> some(counter->size_bytes(), std::byte{1});
        testing::must(runner.device().write(*counter, 0, some));
      }
      testing::must(runner.model().recover());
      for (const Buffer* counter : counters) {
        auto words =
            testing::download<std::uint32_t>(runner.device(), *counter, counter->size_bytes() / 4);
        EXPECT_EQ(std::ranges::count(words, 0u), std::ssize(words));
      }
    };
    const Made made = run(file, whole, "cpu", schedule, "f16", {}, {}, break_off);
    EXPECT_EQ(difference(made, run(file, whole, "cpu", schedule)), "");
  }
}

TEST_F(WholeLayer, FormatsThatDifferAreLaunchedOneByOne) {
  TinyModel model = model_of(TensorType::q4_1, false);
  model.types = {{"blk.0.ffn_down.weight", TensorType::q8_0},
                 {"blk.1.attn_output.weight", TensorType::f16}};
  const GgufFile file = model.file();
  const Schedule schedule = decoding(3, 20);
  const Made whole = run(file, true, "cpu", schedule), apart = run(file, false, "cpu", schedule);
  EXPECT_EQ(difference(whole, apart), "");
  EXPECT_EQ(whole.launches, apart.launches);
}

}  // namespace
}  // namespace millrace::engine
