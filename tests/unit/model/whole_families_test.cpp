// Layers in one launch give the same bits as their operations one by one: the operations that only
// some families have.
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tiny_experts.hpp"
#include "tests/unit/model/whole_layer_fixture.hpp"

namespace millrace::engine {
namespace {

using testing::give_experts;

// A model of 256 channels and 8 heads of 32, of an architecture with operations of its own.
TinyModel family_of(const std::string& architecture,
                    std::map<std::string, std::vector<std::uint64_t>> vectors,
                    std::map<std::string, float> numbers) {
  TinyModel model{.architecture = architecture,
                  .width = 256,
                  .heads = 8,
                  .kv_heads = 4,
                  .ffn_width = 512,
                  .biases = false};
  model.type = TensorType::q4_1;
  model.layer_tensors = std::move(vectors);
  model.numbers = std::move(numbers);
  return model;
}

TEST_F(WholeLayer, SameBitsWithNormsOfHeadsBeforeAndAfterTheRotation) {
  const std::map<std::string, std::vector<std::uint64_t>> by_head{{"attn_q_norm", {32}},
                                                                  {"attn_k_norm", {32}}};
  expect_same(family_of("qwen3", by_head, {}), "cpu", mixed());
  expect_same(family_of("hunyuan-dense", by_head, {}), "cpu", mixed());
}

TEST_F(WholeLayer, SameBitsWithNormsAfterSublayers) {
  TinyModel after = family_of("olmo2",
                              {{"attn_q_norm", {256}},
                               {"attn_k_norm", {128}},
                               {"post_attention_norm", {256}},
                               {"post_ffw_norm", {256}}},
                              {});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    for (const char* name : {"attn_norm.weight", "ffn_norm.weight"}) {
      after.absent.push_back(layer + name);
    }
  }
  expect_same(after, "cpu", mixed());
  // The first layer has a window, the second has none; the logits have a launch for their cap.
  TinyModel around =
      family_of("gemma2", {{"post_attention_norm", {256}}, {"post_ffw_norm", {256}}}, {});
  around.attention.window = 100;
  around.tied = true;
  expect_same(around, "cpu", mixed(), 3);
}

// No family does this yet: both sublayers are scaled, and one of them is normed as well.
TEST_F(WholeLayer, SameBitsWhereALayerNormsOneSublayerAndOnlyScalesTheOther) {
  TinyModel model =
      family_of("gemma2", {{"post_attention_norm", {256}}, {"post_ffw_norm", {256}}}, {});
  model.attention.window = 100;
  model.tied = true;
  const GgufFile file = model.file();
  ModelSpec spec = testing::must(read_spec(file));
  spec.layers[0].norms.feed_forward_post.clear();
  spec.layers[1].norms.attention_post.clear();
  for (LayerSpec& layer : spec.layers) layer.residual_scale = 0.5f;
  const Made whole = run(file, true, "cpu", mixed(), "f16", {}, {}, {}, spec);
  const Made apart = run(file, false, "cpu", mixed(), "f16", {}, {}, {}, spec);
  EXPECT_EQ(difference(whole, apart), "");
  EXPECT_LT(whole.launches, apart.launches);
  // The norms and scales count: the model of the file differs.
  EXPECT_NE(difference(whole, run(file, false, "cpu", mixed())), "");
}

TEST_F(WholeLayer, SameBitsWithScaledSublayersAndQueries) {
  expect_same(family_of("granite", {},
                        {{"embedding_scale", 3.0f},
                         {"residual_scale", 0.3f},
                         {"attention.scale", 0.1f},
                         {"logit_scale", 4.0f}}),
              "cpu", mixed(), 2);
  TinyModel model = family_of("mistral3", {}, {{"attention.temperature_scale", 0.5f}});
  model.counts = {{"rope.scaling.original_context_length", 20}};
  expect_same(model, "cpu", mixed());
}

// As in Gemma 4.
TEST_F(WholeLayer, SameBitsWithNormedValuesAndAScaledOutput) {
  TinyModel model = family_of("gemma3",
                              {{"attn_q_norm", {32}},
                               {"attn_k_norm", {32}},
                               {"post_attention_norm", {256}},
                               {"post_ffw_norm", {256}}},
                              {});
  model.tied = true;
  ModelSpec spec = testing::must(read_spec(model.file()));
  model.layer_tensors["layer_output_scale"] = {1};
  const GgufFile file = model.file();
  const auto made = [&](bool whole) {
    return run(file, whole, "cpu", mixed(), "f16", {}, {}, {}, spec);
  };
  const Made plain = made(false);
  for (LayerSpec& layer : spec.layers) layer.attention.normed_values = true;
  const Made normed = made(false);
  EXPECT_NE(difference(plain, normed), "");
  for (LayerSpec& layer : spec.layers) layer.output_scale = true;
  const Made whole = made(true), apart = made(false);
  EXPECT_EQ(difference(whole, apart), "");
  EXPECT_LT(whole.launches, apart.launches);
  EXPECT_NE(difference(whole, normed), "");
}

TEST_F(WholeLayer, SameBitsWithSublayersSideBySide) {
  TinyModel model = family_of("cohere2", {}, {{"attention.layer_norm_epsilon", 1e-5f}});
  model.attention.window = 100;
  model.tied = true;
  model.absent = {"blk.0.ffn_norm.weight", "blk.1.ffn_norm.weight"};
  expect_same(model, "cpu", mixed());
}

TEST_F(WholeLayer, SameBitsWithExperts) {
  TinyModel model = family_of("qwen3moe", {{"attn_q_norm", {32}}, {"attn_k_norm", {32}}}, {});
  give_experts(model);
  expect_same(model, "cpu", mixed());
  expect_same(model, "cpu", decoding(1, 20));
  expect_same(model, "cpu", decoding(5, 40));
  // The memory of the experts grows with the steps.
  expect_same(model, "cpu", chunks({1, 3, 40, 100}));
  const GgufFile file = model.file();
  const Made expected = run(file, true, "cpu", mixed());
  for (int i = 0; i < 10; ++i) {  // with groups that give up
    const Made made = run(file, true, "cpu", mixed(), "f16", {}, {}, {}, {}, {.layer_patience = 0});
    EXPECT_EQ(difference(made, expected), "");
  }
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    model.types[layer + "ffn_down_exps.weight"] = TensorType::q8_0;
    model.types[layer + "ffn_gate_inp.weight"] = TensorType::f16;
  }
  expect_same(model, "cpu", mixed());
}

// A biased choice among groups, and a shared expert without a gate.
TEST_F(WholeLayer, SameBitsWithASharedExpert) {
  TinyModel model = family_of("glm4moe",
                              {{"post_attention_norm", {256}},
                               {"exp_probs_b.bias", {8}},
                               {"ffn_gate_shexp", {256, 64}},
                               {"ffn_up_shexp", {256, 64}},
                               {"ffn_down_shexp", {64, 256}}},
                              {{"expert_weights_scale", 1.5f}});
  give_experts(model);
  model.counts["expert_shared_count"] = 1;
  model.counts["expert_gating_func"] = 2;
  model.counts["expert_group_count"] = 4;
  model.counts["expert_group_used_count"] = 2;
  model.counts["leading_dense_block_count"] = 0;
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    model.absent.push_back(layer + "ffn_norm.weight");
  }
  expect_same(model, "cpu", mixed());
}

// The shared expert's gate is one more row of the router.
TEST_F(WholeLayer, SameBitsWithAGatedSharedExpert) {
  TinyModel model = family_of("qwen2moe",
                              {{"ffn_gate_inp_shexp", {256}},
                               {"ffn_gate_shexp", {256, 96}},
                               {"ffn_up_shexp", {256, 96}},
                               {"ffn_down_shexp", {96, 256}}},
                              {});
  give_experts(model);
  model.counts["expert_shared_feed_forward_length"] = 96;
  model.biases = true;
  expect_same(model, "cpu", mixed());
}

// Biases of the router and of the experts, a clamped gate, and the softmax of the chosen logits.
// Only the first layer has a window.
TEST_F(WholeLayer, SameBitsWithBiasedExperts) {
  TinyModel model = family_of("gpt-oss",
                              {{"post_attention_norm", {256}},
                               {"ffn_gate_inp.bias", {8}},
                               {"ffn_gate_exps.bias", {64, 8}},
                               {"ffn_up_exps.bias", {64, 8}},
                               {"ffn_down_exps.bias", {256, 8}}},
                              {});
  give_experts(model);
  model.biases = true;
  model.attention = {.window = 100, .sinks = true};
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    model.absent.push_back(layer + "ffn_norm.weight");
    for (const char* name : {"ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"}) {
      model.types[layer + name + ".bias"] = TensorType::f32;
    }
  }
  expect_same(model, "cpu", mixed(), 2);
  expect_same(model, "cpu", decoding(1, 20), 2);
}

}  // namespace
}  // namespace millrace::engine
