// Gemma 4: heads of two sizes, keys as values, shared caches, embeddings by layer, experts beside a
// dense feed-forward.
#include <cmath>

#include "tests/unit/families/small_file.hpp"

namespace millrace::engine {
namespace {

using testing::expect_layers;
using testing::plain_layer;
using testing::post_norms;
using testing::SmallFile;

constexpr std::uint32_t layers = 6;

bool windowed(std::uint32_t layer) {
  return layer % 3 != 2;
}

// Two layers with a window of 128, then one that sees all.
SmallFile gemma4() {
  SmallFile file("gemma4", layers);
  file.u32("attention.key_length", 64).u32("attention.value_length", 64);
  file.u32("attention.key_length_swa", 32).u32("attention.value_length_swa", 32);
  file.u32("rope.dimension_count", 64).u32("rope.dimension_count_swa", 32);
  file.f32("rope.freq_base", 1e6f).f32("rope.freq_base_swa", 1e4f);
  file.u32("attention.sliding_window", 128).f32("final_logit_softcapping", 30.0f);
  file.flags("attention.sliding_window_pattern", {1, 1, 0, 1, 1, 0});
  file.u32("attention.shared_kv_layers", 0).u32("embedding_length_per_layer_input", 0);
  std::vector<float> divisors(32, 1e30f);
  std::fill_n(divisors.begin(), 8, 1.0f);
  file.tensor("rope_freqs.weight", {32}, divisors).without("output.weight");
  return file.add(post_norms).add({"attn_q_norm", "attn_k_norm"});
}

LayerSpec gemma4_layer(std::uint32_t i) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.placement = NormPlacement::before_and_after;
  layer.norms = testing::norms_around;
  AttentionSpec& attention = layer.attention;
  attention.head_dim = attention.rope.dim = windowed(i) ? 32 : 64;
  attention.window = windowed(i) ? 128 : 0;
  attention.scale = 1.0f;
  attention.head_norm = HeadNorm::by_head;
  attention.normed_values = true;
  attention.rope.base = windowed(i) ? 1e4 : 1e6;
  if (!windowed(i)) {
    attention.rope.divisors.assign(32, 1e30f);
    std::fill_n(attention.rope.divisors.begin(), 8, 1.0f);
  }
  layer.feed_forward.gate = Gate::gelu;
  return layer;
}

TEST(Gemma4, HeadsHaveTwoSizesAndOnlyGlobalLayersHaveDivisors) {
  const ModelSpec spec = gemma4().spec();
  EXPECT_EQ(spec.embedding_scale, 8.0f);
  EXPECT_EQ(spec.logit_soft_cap, 30.0f);
  EXPECT_EQ(spec.layer_embedding, 0u);
  expect_layers(spec, layers, gemma4_layer);
}

TEST(Gemma4, LayersWithoutAMatrixOfValuesTakeTheirKeys) {
  SmallFile file = gemma4();
  file.without("blk.2.attn_v.weight").without("blk.5.attn_v.weight");
  file.u32s("attention.head_count_kv", {2, 2, 1, 2, 2, 1}).add({"layer_output_scale"});
  expect_layers(file.spec(), layers, [](std::uint32_t i) {
    LayerSpec layer = gemma4_layer(i);
    layer.attention.keys_are_values = !windowed(i);
    layer.attention.kv_heads = windowed(i) ? 2 : 1;
    layer.output_scale = true;
    return layer;
  });
}

// As in E2B and E4B. Files may still hold the keys and values of layers that share others'.
SmallFile small_model() {
  SmallFile file = gemma4();
  file.u32("attention.shared_kv_layers", 3).u32("embedding_length_per_layer_input", 32);
  file.u32s("feed_forward_length", {96, 96, 96, 192, 192, 192});
  for (const char* name : {"token_embd", "model_proj", "proj_norm"}) {
    file.tensor("per_layer_" + std::string(name) + ".weight");
  }
  for (const char* name : {"attn_k", "attn_v", "attn_k_norm"}) {
    file.without("blk.3." + std::string(name) + ".weight");
  }
  return file.add({"inp_gate", "proj", "post_norm"});
}

TEST(Gemma4, TheLastLayersShareTheCacheOfTheLastOneOfTheirWindow) {
  const ModelSpec spec = small_model().spec();
  EXPECT_EQ(spec.layer_embedding, 32u);
  expect_layers(spec, layers, [](std::uint32_t i) {
    LayerSpec layer = gemma4_layer(i);
    if (i >= 3) layer.attention.cache_of = windowed(i) ? 1 : 2;
    if (i >= 3) layer.feed_forward.width = 192;
    return layer;
  });
  EXPECT_TRUE(spec.layers[2].attention.stores());
  EXPECT_FALSE(spec.layers[3].attention.stores());
}

// As in 26B-A4B.
SmallFile mixture_model() {
  SmallFile file = gemma4();
  file.u32("expert_count", 8).u32("expert_used_count", 2).u32("expert_feed_forward_length", 48);
  file.add({"pre_ffw_norm_2", "post_ffw_norm_1", "post_ffw_norm_2", "ffn_gate_inp"});
  return file.add(
      {"ffn_gate_inp.scale", "ffn_gate_up_exps", "ffn_down_exps", "ffn_down_exps.scale"});
}

TEST(Gemma4, ExpertsStandBesideTheDenseFeedForward) {
  expect_layers(mixture_model().spec(), layers, [](std::uint32_t i) {
    LayerSpec layer = gemma4_layer(i);
    layer.norms.dense_post = "post_ffw_norm_1";
    layer.norms.experts = "pre_ffw_norm_2";
    layer.norms.experts_post = "post_ffw_norm_2";
    layer.feed_forward.experts = ExpertsSpec{.count = 8,
                                             .used = 2,
                                             .width = 48,
                                             .normalized = true,
                                             .router_norm = true,
                                             .expert_scales = true};
    return layer;
  });
}

void expect_refused(const SmallFile& file, std::string_view what) {
  const Error error = file.error();
  EXPECT_NE(error.message.find(what), std::string::npos) << error.message;
  EXPECT_FALSE(error.hint.empty());
}

TEST(Gemma4, WhatFilesGetWrongIsRefusedByName) {
  expect_refused(gemma4().without_key("attention.sliding_window_pattern"),
                 "gemma4.attention.sliding_window_pattern is absent");
  expect_refused(gemma4().without_key("attention.sliding_window"),
                 "gemma4.attention.sliding_window is absent or 0");
  expect_refused(gemma4().u32("attention.value_length_swa", 16), "heads of 32 key and 16 value");
  expect_refused(gemma4().u32("rope.dimension_count_swa", 64),
                 "gemma4.rope.dimension_count_swa = 64 does not fit heads of 32");
  expect_refused(gemma4().tensor("rope_freqs.weight", {32}, {2e6f}),
                 "holds a value outside 1/64 to 1e6 that is not 1e30");
  expect_refused(gemma4().tensor("rope_freqs.weight", {16}), "must hold 32 F32 values");
  // Layers 0 and 1 have a window, so the global layers after them find no cache.
  expect_refused(small_model().u32("attention.shared_kv_layers", 4),
                 "layer 2 has no layer of its window before them");
  expect_refused(small_model().u32("attention.shared_kv_layers", 7),
                 "gemma4.attention.shared_kv_layers = 7");
  expect_refused(small_model().u32s("attention.head_count_kv", {2, 2, 2, 4, 2, 2}),
                 "layer 3 attends to the keys of layer 1, which has other KV heads");
  expect_refused(small_model().u32("embedding_length_per_layer_input", 24),
                 "is not a multiple of 16");
  expect_refused(small_model().without("per_layer_model_proj.weight"),
                 "per_layer_model_proj.weight");
  expect_refused(small_model().without("blk.4.inp_gate.weight"), "blk.4.inp_gate.weight");
  expect_refused(gemma4().add({"inp_gate"}), "belongs to no gemma4 model");
  expect_refused(mixture_model().without("blk.1.ffn_gate_inp.scale"), "blk.1.ffn_gate_inp.scale");
  expect_refused(mixture_model().without("blk.1.post_ffw_norm_2.weight"),
                 "blk.1.post_ffw_norm_2.weight");
  expect_refused(mixture_model().without_key("expert_feed_forward_length"),
                 "gemma4.expert_feed_forward_length = 0");
}

}  // namespace
}  // namespace millrace::engine
