// Layers in one launch give the same bits as the same operations launched one by one, for every
// type, instruction of the dot products, kind of step, and cut of attention.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/core/model/operations.hpp"
#include "tests/unit/model/whole_layer_fixture.hpp"

namespace millrace::engine {
namespace {

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
  const std::pair<TensorType, Shape> cases[] = {
      {TensorType::q8_0, shapes[0]}, {TensorType::iq4_nl, shapes[1]},
      {TensorType::q4_k, shapes[2]}, {TensorType::q2_k, shapes[3]},
      {TensorType::q6_k, shapes[0]}, {TensorType::q5_1, shapes[0]}};
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
    expect_same(model, "cpu", decoding(2, 30));
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

// A wide step of a large model has a launch for each layer or for a few.
TEST_F(WholeLayer, SameBitsInALaunchForEachLayer) {
  const GgufFile file = model_of(TensorType::q4_1, false).file();
  for (const Schedule& schedule : {decoding(5, 300), mixed()}) {
    const Made one = run(file, true, "cpu", schedule);
    const Made each =
        run(file, true, "cpu", schedule, "f16", {}, {}, {}, {}, {.layer_launch_products = 1});
    EXPECT_EQ(difference(each, one), "");
    EXPECT_EQ(each.launches, one.launches + schedule.steps.size());
  }
}

// Without patience a group ends as soon as it has to wait, and the others do the rest.
TEST_F(WholeLayer, SameBitsWhereGroupsGiveUp) {
  const GgufFile file = model_of(TensorType::q4_1, false).file();
  for (const Schedule& schedule : {decoding(5, 300), chunks({100, 17, 41})}) {
    const Made expected = run(file, true, "cpu", schedule);
    for (int i = 0; i < 20; ++i) {
      const Made made =
          run(file, true, "cpu", schedule, "f16", {}, {}, {}, {}, {.layer_patience = 0});
      EXPECT_EQ(difference(made, expected), "");
    }
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

// Matrices of several types in a layer, also among q, k and v, and other ones in the next layer, as
// in files of type Q4_K_M.
TEST_F(WholeLayer, SameBitsWithTypesThatDiffer) {
  for (const bool biases : {false, true}) {
    TinyModel model = model_of(TensorType::q5_0, biases);
    model.types = {{"blk.0.attn_v.weight", TensorType::q8_0},
                   {"blk.0.ffn_down.weight", TensorType::q6_k},
                   {"blk.1.attn_k.weight", TensorType::q4_1},
                   {"blk.1.ffn_down.weight", TensorType::q4_k}};
    expect_same(model, "cpu", decoding(3, 20));
    expect_same(model, "cpu", mixed());
  }
}

TEST_F(WholeLayer, TypesThatAreNotQuantizedAreLaunchedOneByOne) {
  TinyModel model = model_of(TensorType::q4_1, false);
  model.types = {{"blk.0.attn_q.weight", TensorType::f16},
                 {"blk.1.attn_output.weight", TensorType::f16}};
  const GgufFile file = model.file();
  const Schedule schedule = decoding(3, 20);
  const Made whole = run(file, true, "cpu", schedule), apart = run(file, false, "cpu", schedule);
  EXPECT_EQ(difference(whole, apart), "");
  EXPECT_EQ(whole.launches, apart.launches);
}

}  // namespace
}  // namespace millrace::engine
