// Families whose layers differ: windows, local bases, layers that do not rotate.
#include "tests/unit/families/small_file.hpp"

namespace millrace::engine {
namespace {

using testing::expect_layers;
using testing::plain_layer;
using testing::post_norms;
using testing::root_scale;
using testing::SmallFile;

SmallFile gemma2(std::uint32_t layers) {
  SmallFile file("gemma2", layers);
  file.u32("context_length", 8192).f32("attn_logit_softcapping", 50.0f);
  file.f32("final_logit_softcapping", 30.0f).u32("attention.sliding_window", 4096);
  file.u32("attention.key_length", 32).u32("attention.value_length", 32);
  file.add(post_norms).without("output.weight");
  return file;
}

LayerSpec gemma2_layer(std::uint32_t i) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.placement = NormPlacement::before_and_after;
  layer.norms = testing::norms_around;
  layer.attention.head_dim = layer.attention.rope.dim = 32;
  layer.attention.scale = root_scale(32);
  layer.attention.soft_cap = 50.0f;
  layer.attention.window = i % 2 == 0 ? 4096 : 0;
  layer.feed_forward.gate = Gate::gelu;
  return layer;
}

TEST(WindowedFamilies, Gemma2HasAWindowInEverySecondLayer) {
  const ModelSpec spec = gemma2(5).spec();
  EXPECT_EQ(spec.embedding_scale, 8.0f);
  EXPECT_EQ(spec.logit_soft_cap, 30.0f);
  EXPECT_TRUE(spec.tied_output);
  expect_layers(spec, 5, gemma2_layer);
}

TEST(WindowedFamilies, Gemma2HasItsNumbersWithoutTheirKeys) {
  SmallFile file = gemma2(5);
  file.without_key("attn_logit_softcapping").without_key("final_logit_softcapping");
  file.without_key("attention.sliding_window");
  EXPECT_EQ(file.spec().logit_soft_cap, 30.0f);
  expect_layers(file.spec(), 5, gemma2_layer);
  EXPECT_EQ(file.f32("final_logit_softcapping", 0.0f).spec().logit_soft_cap, 0.0f);
}

TEST(WindowedFamilies, Gemma2Of27BScalesByWidthAndHeads) {
  expect_layers(gemma2(46).spec(), 46, [](std::uint32_t i) {
    LayerSpec layer = gemma2_layer(i);
    layer.attention.scale = root_scale(16);  // width 64, 4 heads
    return layer;
  });
}

// The numbers of Gemma 3 270M, whose file has neither a pattern nor a local base.
SmallFile gemma3(std::uint32_t layers) {
  SmallFile file("gemma3", layers);
  file.u32("context_length", 32768).u32("embedding_length", 640).u32("feed_forward_length", 2048);
  file.u32("attention.head_count_kv", 1).u32("attention.key_length", 256);
  file.u32("attention.value_length", 256).u32("attention.sliding_window", 512);
  file.f32("rope.freq_base", 1e6f).f32("attention.layer_norm_rms_epsilon", 1e-6f);
  file.add(post_norms).add({"attn_q_norm", "attn_k_norm"}).without("output.weight");
  return file;
}

LayerSpec gemma3_layer(std::uint32_t i) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.placement = NormPlacement::before_and_after;
  layer.norms = testing::norms_around;
  layer.attention.kv_heads = 1;
  layer.attention.head_dim = 256;
  layer.attention.scale = 0.0625f;
  layer.attention.head_norm = HeadNorm::by_head;
  const bool global = i % 6 == 5;
  layer.attention.window = global ? 0 : 512;
  layer.attention.rope = {.kind = RopeKind::halves, .dim = 256, .base = global ? 1e6 : 10000.0};
  layer.feed_forward = {.width = 2048, .gate = Gate::gelu};
  return layer;
}

TEST(WindowedFamilies, Gemma3HasAWindowAndABaseOfItsOwnInFiveOfSixLayers) {
  const ModelSpec spec = gemma3(18).spec();
  EXPECT_EQ(spec.embedding_scale, static_cast<float>(std::sqrt(640.0)));
  EXPECT_EQ(spec.logit_soft_cap, 0.0f);
  expect_layers(spec, 18, gemma3_layer);
  SmallFile capped = gemma3(6);
  EXPECT_EQ(capped.f32("final_logit_softcapping", 30.0f).spec().logit_soft_cap, 30.0f);
}

TEST(WindowedFamilies, Gemma3ScalesPositionsInGlobalLayersOnly) {
  SmallFile file = gemma3(12);
  file.text("rope.scaling.type", "linear").f32("rope.scaling.factor", 8.0f);
  file.f32("rope.freq_base_swa", 20000.0f);
  expect_layers(file.spec(), 12, [](std::uint32_t i) {
    LayerSpec layer = gemma3_layer(i);
    if (i % 6 == 5) {
      layer.attention.rope.linear_factor = 8.0;
    } else {
      layer.attention.rope.base = 20000.0;
    }
    return layer;
  });
}

TEST(WindowedFamilies, Gemma3Of27BScalesByWidthAndHeads) {
  SmallFile file = gemma3(62);
  file.u32("embedding_length", 5376).u32("attention.head_count", 32);
  file.u32("attention.key_length", 128).u32("attention.value_length", 128);
  const ModelSpec spec = file.spec();
  for (const LayerSpec& layer : spec.layers) EXPECT_EQ(layer.attention.scale, root_scale(168));
}

TEST(WindowedFamilies, Gemma3WithoutAWindowIsGlobal) {
  const ModelSpec spec = gemma3(6).without_key("attention.sliding_window").spec();
  expect_layers(spec, 6, gemma3_layer(5));
}

TEST(WindowedFamilies, APatternIsANumberOrAFlagForEachLayer) {
  const auto windows = [](const SmallFile& file) {
    std::string text;
    const ModelSpec spec = file.spec();
    for (const LayerSpec& layer : spec.layers) {
      EXPECT_EQ(layer.attention.rope.base, layer.attention.window > 0 ? 10000.0 : 1e6);
      text += layer.attention.window > 0 ? 'w' : '.';
    }
    return text;
  };
  SmallFile file = gemma3(7);
  EXPECT_EQ(windows(file), "wwwww.w");
  EXPECT_EQ(windows(file.u32("attention.sliding_window_pattern", 3)), "ww.ww.w");
  EXPECT_EQ(windows(file.u32("attention.sliding_window_pattern", 1)), ".......");
  EXPECT_EQ(windows(file.flags("attention.sliding_window_pattern", {0, 1, 1, 0, 0, 0, 1})),
            ".ww...w");
}

TEST(WindowedFamilies, AWindowAsLargeAsTheContextStillHasItsOwnRope) {
  SmallFile file = gemma3(6);
  const ModelSpec spec = file.u32("attention.sliding_window", 32768).spec();
  expect_layers(spec, 6, [](std::uint32_t i) {
    LayerSpec layer = gemma3_layer(i);
    layer.attention.window = 0;
    return layer;
  });
}

TEST(WindowedFamilies, LlamaHasItsWindowInAllLayers) {
  LayerSpec layer = plain_layer();
  layer.attention.window = 300;
  expect_layers(SmallFile("llama").u32("attention.sliding_window", 300).spec(), 4, layer);
  layer.attention.window = 0;
  expect_layers(SmallFile("llama").u32("attention.sliding_window", 1024).spec(), 4, layer);
}

LayerSpec olmo3_layer(bool windowed) {
  LayerSpec layer = plain_layer(RopeKind::halves);
  layer.placement = NormPlacement::after;
  layer.norms = {"post_attention_norm", "", "post_ffw_norm", ""};
  layer.attention.head_norm = HeadNorm::whole_width;
  layer.attention.rope.base = 500000.0;
  if (windowed) {
    layer.attention.window = 128;
    return layer;
  }
  layer.attention.rope.yarn = Yarn{.factor = 8.0, .original_tokens = 256.0};
  return layer;
}

TEST(WindowedFamilies, Olmo3StretchesGlobalLayersOnly) {
  SmallFile file("olmo2", 8);
  file.remove({"attn_norm", "ffn_norm"}).add(post_norms).add({"attn_q_norm", "attn_k_norm"});
  file.u32("attention.sliding_window", 128).f32("rope.freq_base", 500000.0f);
  file.text("rope.scaling.type", "yarn").f32("rope.scaling.factor", 8.0f);
  file.u32("rope.scaling.original_context_length", 256);
  expect_layers(file.spec(), 8, [](std::uint32_t i) {
    LayerSpec layer = olmo3_layer(i % 4 != 3);
    if (i % 4 == 3) {
      layer.attention.rope.amplitude = 0.1 * std::log(8.0) + 1.0;  // 1.2079
    }
    return layer;
  });
}

TEST(WindowedFamilies, Cohere2RotatesOnlyWhereItHasAWindow) {
  SmallFile file("cohere2", 8);
  file.without_key("attention.layer_norm_rms_epsilon").f32("attention.layer_norm_epsilon", 1e-4f);
  file.u32("attention.sliding_window", 256).f32("logit_scale", 0.25f).u32("vocab_size", 70);
  file.text("rope.scaling.type", "none").f32("rope.freq_base", 50000.0f);
  file.remove({"ffn_norm"}).without("output.weight");
  const ModelSpec spec = file.spec();
  EXPECT_TRUE(spec.centered_norms);
  EXPECT_EQ(spec.norm_epsilon, 1e-4f);
  EXPECT_EQ(spec.logit_scale, 0.25f);
  expect_layers(spec, 8, [](std::uint32_t i) {
    LayerSpec layer = plain_layer();
    layer.placement = NormPlacement::parallel;
    layer.norms = {"attn_norm", "", "", ""};
    layer.attention.window = 256;
    layer.attention.rope.base = 50000.0;
    if (i % 4 == 3) {
      layer.attention.window = 0;
      layer.attention.rope = {.kind = RopeKind::none};
    }
    return layer;
  });
}

}  // namespace
}  // namespace millrace::engine
