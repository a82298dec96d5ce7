// Families without experts whose layers are all alike, each with the layer that it should have.
#include "tests/unit/families/small_file.hpp"

namespace millrace::engine {
namespace {

using testing::expect_layers;
using testing::plain_layer;
using testing::post_norms;
using testing::root_scale;
using testing::SmallFile;

TEST(DenseFamilies, LlamaIsThePlainLayer) {
  const ModelSpec spec = SmallFile("llama").spec();
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(spec.name, "small");
  EXPECT_EQ(spec.width, 64u);
  EXPECT_EQ(spec.vocabulary, 70u);
  EXPECT_EQ(spec.context_tokens, 1024u);
  EXPECT_EQ(spec.norm_epsilon, 1e-5f);
  EXPECT_FALSE(spec.centered_norms);
  EXPECT_EQ(spec.embedding_scale, 1.0f);
  EXPECT_EQ(spec.logit_scale, 1.0f);
  EXPECT_EQ(spec.logit_soft_cap, 0.0f);
  EXPECT_FALSE(spec.tied_output);
  EXPECT_TRUE(SmallFile("llama").without("output.weight").spec().tied_output);
  expect_layers(spec, 4, plain_layer());
}

TEST(DenseFamilies, Qwen2HasKeysOfItsOwnAndRotatesHalves) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.attention.rope.base = 1e6;
  SmallFile file("qwen2");
  file.f32("rope.freq_base", 1e6f).add({"attn_q.bias", "attn_k.bias", "attn_v.bias"});
  file.foreign("llama.rope.freq_base", 5.0f);
  expect_layers(file.spec(), 4, layer);
}

TEST(DenseFamilies, Qwen3NormsItsHeadsWhichMayBeWiderThanTheModel) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.attention.head_dim = layer.attention.rope.dim = 128;
  layer.attention.scale = root_scale(128);
  layer.attention.head_norm = HeadNorm::by_head;
  SmallFile file("qwen3");
  file.u32("attention.key_length", 128).u32("attention.value_length", 128);
  file.add({"attn_q_norm", "attn_k_norm"});
  expect_layers(file.spec(), 4, layer);
}

TEST(DenseFamilies, Mistral3HasATemperatureIfItsFileSaysSo) {
  expect_layers(SmallFile("mistral3").spec(), 4, plain_layer());
  SmallFile file("mistral3");
  file.text("rope.scaling.type", "yarn").f32("rope.scaling.factor", 4.0f);
  file.u32("rope.scaling.original_context_length", 256).f32("attention.temperature_scale", 0.1f);
  file.f32("rope.scaling.yarn_beta_fast", 16.0f).f32("rope.scaling.yarn_beta_slow", 2.0f);
  file.f32("rope.scaling.yarn_log_multiplier", 1.0f);
  LayerSpec layer = plain_layer();
  layer.attention.rope.yarn =
      Yarn{.factor = 4.0, .original_tokens = 256.0, .beta_fast = 16.0, .beta_slow = 2.0};
  layer.attention.temperature_beta = 0.1f;
  layer.attention.temperature_tokens = 256;
  expect_layers(file.spec(), 4, layer);
}

TEST(DenseFamilies, GraniteHasFourNumbers) {
  SmallFile file("granite");
  file.f32("embedding_scale", 12.0f).f32("logit_scale", 8.0f).f32("residual_scale", 0.22f);
  file.f32("attention.scale", 0.015625f).u32("vocab_size", 70);
  const ModelSpec spec = file.spec();
  EXPECT_EQ(spec.embedding_scale, 12.0f);
  EXPECT_EQ(spec.logit_scale, 0.125f);  // GGUF's number divides
  LayerSpec layer = plain_layer();
  layer.residual_scale = 0.22f;
  layer.attention.scale = 0.015625f;
  expect_layers(spec, 4, layer);

  layer.attention.rope = {.kind = RopeKind::none};
  expect_layers(file.flag("rope.scaling.finetuned", false).spec(), 4, layer);
}

TEST(DenseFamilies, Glm4HasNormsAroundAndRotatesHalfOfEachHead) {
  LayerSpec layer = plain_layer();
  layer.placement = NormPlacement::before_and_after;
  layer.norms = testing::norms_around;
  layer.attention.rope.dim = 8;
  SmallFile file("glm4");
  file.u32("rope.dimension_count", 8).add(post_norms).remove({"ffn_gate"});
  for (int i = 0; i < 4; ++i) file.tensor("blk." + std::to_string(i) + ".ffn_up.weight", {1, 192});
  expect_layers(file.spec(), 4, layer);
}

TEST(DenseFamilies, Olmo2NormsWhatSublayersGive) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.placement = NormPlacement::after;
  layer.norms = {"post_attention_norm", "", "post_ffw_norm", ""};
  layer.attention.head_norm = HeadNorm::whole_width;
  SmallFile file("olmo2");
  file.remove({"attn_norm", "ffn_norm"}).add(post_norms).add({"attn_q_norm", "attn_k_norm"});
  expect_layers(file.spec(), 4, layer);
}

TEST(DenseFamilies, SmolLm3DoesNotRotateEachFourthLayer) {
  SmallFile file("smollm3", 9);
  file.f32("rope.freq_base", 5e6f);
  expect_layers(file.spec(), 9, [](std::uint32_t i) {
    LayerSpec layer = plain_layer();
    layer.attention.rope.base = 5e6;
    if (i == 3 || i == 7) layer.attention.rope = {.kind = RopeKind::none};
    return layer;
  });
}

TEST(DenseFamilies, SeedOssCallsItsSecondNormOtherwise) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.norms = {"attn_norm", "", "post_attention_norm", ""};
  layer.attention.head_dim = layer.attention.rope.dim = 32;
  layer.attention.scale = root_scale(32);
  SmallFile file("seed_oss");
  file.u32("attention.key_length", 32).u32("attention.value_length", 32);
  file.remove({"ffn_norm"}).add({"post_attention_norm", "attn_q.bias", "attn_k.bias"});
  expect_layers(file.spec(), 4, layer);
}

TEST(DenseFamilies, Ernie45IsLlamas) {
  expect_layers(SmallFile("ernie4_5").spec(), 4, plain_layer());
}

TEST(DenseFamilies, HunyuanNormsHeadsAfterTheyRotate) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.attention.rope.base = 11158840.0;
  layer.attention.head_norm = HeadNorm::by_head;
  layer.attention.norm_after_rope = true;
  SmallFile file("hunyuan-dense");
  file.text("rope.scaling.type", "none").f32("rope.scaling.factor", 1.0f);
  file.u32("rope.scaling.original_context_length", 262144).f32("rope.freq_base", 11158840.0f);
  file.u32("expert_count", 1).add({"attn_q_norm", "attn_k_norm"});
  expect_layers(file.spec(), 4, layer);
}

TEST(DenseFamilies, Phi3MayBeFusedAndRotateAPart) {
  SmallFile file("phi3");
  file.u32("rope.dimension_count", 12).u32("attention.sliding_window", 0);
  file.remove({"attn_q", "attn_k", "attn_v", "ffn_gate"}).add({"attn_qkv"});
  for (int i = 0; i < 4; ++i) file.tensor("blk." + std::to_string(i) + ".ffn_up.weight", {1, 192});
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.attention.rope.dim = 12;
  expect_layers(file.spec(), 4, layer);

  layer.attention.window = 300;
  expect_layers(file.u32("attention.sliding_window", 300).spec(), 4, layer);
}

TEST(DenseFamilies, KeysOfAllLayersMayBeArrays) {
  SmallFile file("llama");
  file.u32s("attention.head_count", {4, 4, 4, 4}).u32s("attention.head_count_kv", {2, 2, 2, 2});
  file.u32s("feed_forward_length", {96, 96, 64, 96});
  expect_layers(file.spec(), 4, [](std::uint32_t i) {
    LayerSpec layer = plain_layer();
    if (i == 2) layer.feed_forward.width = 64;
    return layer;
  });
}

TEST(DenseFamilies, LayersMayDifferInHeads) {
  SmallFile file("llama");
  file.u32s("attention.head_count", {4, 2, 4, 4}).u32s("attention.head_count_kv", {2, 1, 4, 1});
  expect_layers(file.spec(), 4, [](std::uint32_t i) {
    LayerSpec layer = plain_layer();
    layer.attention.heads = i == 1 ? 2 : 4;
    layer.attention.kv_heads = std::array{2, 1, 4, 1}[i];
    return layer;
  });
}

TEST(DenseFamilies, WithoutKvHeadsThereAreAsManyAsHeads) {
  LayerSpec layer = plain_layer();
  layer.attention.kv_heads = 4;
  expect_layers(SmallFile("llama").without_key("attention.head_count_kv").spec(), 4, layer);
}

TEST(DenseFamilies, SinksAndSoftCapsAreReadInEveryFamily) {
  LayerSpec layer = plain_layer();
  layer.attention.sinks = true;
  layer.attention.soft_cap = 50.0f;
  SmallFile file("llama");
  file.f32("attn_logit_softcapping", 50.0f).add({"attn_sinks"});
  expect_layers(file.spec(), 4, layer);
}

TEST(DenseFamilies, FactorsThatDoNothingPass) {
  SmallFile file("llama");
  file.f32("logit_scale", 1.0f).f32("residual_scale", 0.0f).f32("attention.scale", 0.25f);
  file.f32("attention.clamp_kqv", 0.0f).u32("pooling_type", 0).u32("expert_count", 0);
  file.u32("expert_used_count", 0).flag("attention.causal", true);
  file.flag("rope.scaling.finetuned", false);
  expect_layers(file.spec(), 4, plain_layer());
}

}  // namespace
}  // namespace millrace::engine
