// Families with experts.
#include <cstring>

#include "tests/unit/families/small_file.hpp"

namespace millrace::engine {
namespace {

using testing::dense;
using testing::expect_layers;
using testing::plain_layer;
using testing::root_scale;
using testing::routed;
using testing::shared;
using testing::SmallFile;

// Two of eight experts in all layers.
SmallFile with_experts(const std::string& architecture, std::uint32_t layers = 4) {
  SmallFile file(architecture, layers);
  file.u32("expert_count", 8).u32("expert_used_count", 2).remove(dense).add(routed);
  return file;
}

LayerSpec layer_of(RopeKind kind, const ExpertsSpec& experts) {
  LayerSpec layer = plain_layer(kind);
  layer.feed_forward = {.width = 0, .experts = experts};
  return layer;
}

TEST(ExpertFamilies, MixtralIsALlamaWithExperts) {
  const ExpertsSpec experts{.count = 8, .used = 2, .width = 96, .normalized = true};
  expect_layers(with_experts("llama").spec(), 4, layer_of(RopeKind::pairs, experts));
}

// A step of a model with many experts needs more tokens before an expert gets several.
TEST(ExpertFamilies, StepsHaveTokensForMostExperts) {
  EXPECT_EQ(SmallFile("llama", 4).spec().least_prefill_tokens(), 32u);
  EXPECT_EQ(with_experts("llama").spec().least_prefill_tokens(), 64u);
  ModelSpec spec = with_experts("llama").spec();
  spec.layers.back().feed_forward.experts->count = 128;
  EXPECT_EQ(spec.least_prefill_tokens(), 1024u);
}

TEST(ExpertFamilies, Qwen2MoeHasASharedExpertBehindAGate) {
  SmallFile file = with_experts("qwen2moe");
  file.u32("expert_feed_forward_length", 48).u32("expert_shared_feed_forward_length", 160);
  file.add(shared).add({"ffn_gate_inp_shexp", "attn_q.bias", "attn_k.bias", "attn_v.bias"});
  const ExpertsSpec experts{.count = 8,
                            .used = 2,
                            .width = 48,
                            .normalized = false,
                            .shared_width = 160,
                            .shared_gate = true};
  expect_layers(file.spec(), 4, layer_of(RopeKind::halves, experts));
}

TEST(ExpertFamilies, Qwen3MoeNormalizesAndNormsItsHeads) {
  SmallFile file = with_experts("qwen3moe");
  file.u32("expert_feed_forward_length", 48).add({"attn_q_norm", "attn_k_norm"});
  LayerSpec layer =
      layer_of(RopeKind::halves, {.count = 8, .used = 2, .width = 48, .normalized = true});
  layer.attention.head_norm = HeadNorm::by_head;
  expect_layers(file.spec(), 4, layer);
  layer.feed_forward.experts->normalized = false;
  expect_layers(file.flag("expert_weights_norm", false).spec(), 4, layer);
}

// The numbers of the model of 20B.
TEST(ExpertFamilies, GptOssHasSinksWindowsAndAnUnroundedYarn) {
  SmallFile file("gpt-oss", 24);
  file.u32("context_length", 131072).u32("embedding_length", 2880);
  file.u32("feed_forward_length", 2880).u32("expert_feed_forward_length", 2880);
  file.u32("attention.head_count", 64).u32("attention.head_count_kv", 8);
  file.u32("attention.key_length", 64).u32("attention.value_length", 64);
  file.u32("attention.sliding_window", 128).f32("rope.freq_base", 150000.0f);
  file.text("rope.scaling.type", "yarn").f32("rope.scaling.factor", 32.0f);
  file.u32("rope.scaling.original_context_length", 4096);
  file.f32("rope.scaling.yarn_beta_fast", 32.0f).f32("rope.scaling.yarn_beta_slow", 1.0f);
  file.u32("expert_count", 32).u32("expert_used_count", 4);
  file.remove(dense).remove({"ffn_norm"}).add(routed);
  file.add({"post_attention_norm", "attn_sinks", "attn_q.bias", "attn_k.bias", "attn_v.bias"});
  file.add({"attn_output.bias", "ffn_gate_inp.bias", "ffn_gate_exps.bias", "ffn_up_exps.bias"});
  file.add({"ffn_down_exps.bias"});
  expect_layers(file.spec(), 24, [](std::uint32_t i) {
    LayerSpec layer;
    layer.norms = {"attn_norm", "", "post_attention_norm", ""};
    AttentionSpec& attention = layer.attention;
    attention = {.heads = 64, .kv_heads = 8, .head_dim = 64, .scale = 0.125f};
    attention.window = i % 2 == 0 ? 128 : 0;
    attention.sinks = true;
    attention.rope = {.kind = RopeKind::halves, .dim = 64, .base = 150000.0};
    attention.rope.yarn = Yarn{.factor = 32.0, .original_tokens = 4096.0, .rounds_range = false};
    attention.rope.amplitude = 0.1 * std::log(32.0) + 1.0;  // 1.3466
    layer.feed_forward.gate = Gate::clamped_silu;
    layer.feed_forward.experts =
        ExpertsSpec{.count = 32, .used = 4, .width = 2880, .router = Router::softmax_of_chosen};
    return layer;
  });
}

TEST(ExpertFamilies, GraniteMoeHasItsNumbersAndAPlainSharedExpert) {
  SmallFile file = with_experts("granitemoe");
  file.f32("embedding_scale", 12.0f).f32("logit_scale", 6.0f).f32("residual_scale", 0.22f);
  file.f32("attention.scale", 0.015625f);
  LayerSpec layer =
      layer_of(RopeKind::pairs, {.count = 8, .used = 2, .width = 96, .normalized = true});
  layer.residual_scale = 0.22f;
  layer.attention.scale = 0.015625f;
  EXPECT_EQ(file.spec().logit_scale, 1.0f / 6.0f);
  expect_layers(file.spec(), 4, layer);
  layer.feed_forward.experts->shared_width = 128;
  file.u32("expert_shared_feed_forward_length", 128).add(shared);
  expect_layers(file.spec(), 4, layer);
}

SmallFile glm4moe() {
  SmallFile file("glm4moe", 5);
  file.u32("leading_dense_block_count", 1).u32("nextn_predict_layers", 1);
  file.u32("expert_count", 8).u32("expert_used_count", 2).u32("expert_feed_forward_length", 48);
  file.u32("expert_shared_count", 1).u32("expert_gating_func", 2);
  file.f32("expert_weights_scale", 2.5f).flag("expert_weights_norm", true);
  file.u32("rope.dimension_count", 8).remove({"ffn_norm"}).add({"post_attention_norm"});
  file.u32("expert_group_count", 1).u32("expert_group_used_count", 1);
  file.remove(dense).add(routed).add(shared).add({"exp_probs_b.bias"});
  for (const auto* list : {&routed, &shared}) {
    for (const std::string& name : *list) file.without("blk.0." + name + ".weight");
  }
  file.without("blk.0.exp_probs_b.bias");
  for (const std::string& name : dense) file.tensor("blk.0." + name + ".weight");
  for (const char* name : {"eh_proj", "enorm", "hnorm", "shared_head_norm"}) {
    file.tensor("blk.4.nextn." + std::string(name) + ".weight");
  }
  return file;
}

LayerSpec glm4moe_layer(std::uint32_t i) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.norms = {"attn_norm", "", "post_attention_norm", ""};
  layer.attention.rope.dim = 8;
  if (i == 0) return layer;
  layer.feed_forward = {.width = 0,
                        .experts = ExpertsSpec{.count = 8,
                                               .used = 2,
                                               .width = 48,
                                               .router = Router::sigmoid,
                                               .selection_bias = true,
                                               .normalized = true,
                                               .scale = 2.5f,
                                               .shared_width = 48}};
  return layer;
}

TEST(ExpertFamilies, Glm4MoeHasALeadingDenseLayerAndSkipsItsDraftBlock) {
  expect_layers(glm4moe().spec(), 4, glm4moe_layer);
}

TEST(ExpertFamilies, Glm4MoeNormsHeadsIfItsFileHasTheNorms) {
  expect_layers(glm4moe().add({"attn_q_norm", "attn_k_norm"}).spec(), 4, [](std::uint32_t i) {
    LayerSpec layer = glm4moe_layer(i);
    layer.attention.head_norm = HeadNorm::by_head;
    return layer;
  });
}

TEST(ExpertFamilies, Glm4MoeIsSigmoidAndNormalizedWithoutTheKeys) {
  SmallFile file = glm4moe();
  file.without_key("expert_gating_func").without_key("expert_weights_norm");
  expect_layers(file.spec(), 4, glm4moe_layer);
}

TEST(ExpertFamilies, MiniMaxM2NormsWholeWidthsAndChoosesWithABias) {
  SmallFile file = with_experts("minimax-m2");
  file.u32("expert_feed_forward_length", 96).u32("rope.dimension_count", 8);
  file.add({"attn_q_norm", "attn_k_norm", "exp_probs_b.bias"});
  LayerSpec layer = layer_of(RopeKind::halves, {.count = 8,
                                                .used = 2,
                                                .width = 96,
                                                .router = Router::sigmoid,
                                                .selection_bias = true,
                                                .normalized = true});
  layer.attention.rope.dim = 8;
  layer.attention.head_norm = HeadNorm::whole_width;
  expect_layers(file.spec(), 4, layer);
}

TEST(ExpertFamilies, Ernie45MoeHasExpertsInLayersOfAStep) {
  SmallFile file("ernie4_5-moe", 7);
  file.u32("expert_count", 8).u32("expert_used_count", 2).u32("expert_feed_forward_length", 48);
  file.u32("expert_shared_count", 2).u32("expert_shared_feed_forward_length", 96);
  file.u32("leading_dense_block_count", 2).u32("interleave_moe_layer_step", 2);
  for (const int i : {3, 5}) {
    const std::string prefix = "blk." + std::to_string(i) + ".";
    for (const std::string& name : dense) file.without(prefix + name + ".weight");
    for (const std::string& name : routed) file.tensor(prefix + name + ".weight");
    for (const std::string& name : shared) file.tensor(prefix + name + ".weight");
  }
  file.tensor("blk.3.exp_probs_b.bias");
  expect_layers(file.spec(), 7, [](std::uint32_t i) {
    LayerSpec layer = plain_layer();
    if (i == 3 || i == 5) {
      layer.feed_forward = {.width = 0,
                            .experts = ExpertsSpec{.count = 8,
                                                   .used = 2,
                                                   .width = 48,
                                                   .selection_bias = i == 3,
                                                   .normalized = true,
                                                   .shared_width = 96}};
    }
    return layer;
  });
}

TEST(ExpertFamilies, GroupsAndNumbersByLayerAreRead) {
  SmallFile file = with_experts("llama");
  file.u32("expert_group_count", 4).u32("expert_group_used_count", 2);
  file.u32s("expert_used_count", {2, 3, 4, 2}).u32s("expert_feed_forward_length", {8, 16, 24, 32});
  expect_layers(file.spec(), 4, [](std::uint32_t i) {
    ExpertsSpec experts{.count = 8, .normalized = true, .groups = 4, .groups_used = 2};
    experts.used = std::array<std::uint32_t, 4>{2, 3, 4, 2}[i];
    experts.width = 8 * (i + 1);
    return layer_of(RopeKind::pairs, experts);
  });
}

TEST(ExpertFamilies, TheRouterOfAFileCounts) {
  const auto router = [](std::uint32_t kind) {
    const ModelSpec spec = with_experts("llama").u32("expert_gating_func", kind).spec();
    return spec.layers[0].feed_forward.experts->router;
  };
  EXPECT_EQ(router(0), Router::softmax);
  EXPECT_EQ(router(1), Router::softmax);
  EXPECT_EQ(router(2), Router::sigmoid);
  EXPECT_EQ(router(3), Router::softmax_of_chosen);
}

TEST(ExpertFamilies, ExpertsNeedNoWidthOfDenseLayers) {
  SmallFile file = with_experts("llama");
  file.without_key("feed_forward_length").u32("expert_feed_forward_length", 48);
  EXPECT_EQ(file.spec().layers[3].feed_forward.experts->width, 48u);
}

}  // namespace
}  // namespace millrace::engine
