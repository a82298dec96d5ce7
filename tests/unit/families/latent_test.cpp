// Families with multi-head latent attention.
#include <cmath>

#include "tests/unit/families/small_file.hpp"

namespace millrace::engine {
namespace {

using testing::dense;
using testing::expect_layers;
using testing::plain_layer;
using testing::routed;
using testing::shared;
using testing::SmallFile;

// Heads of 48 + 16 channels, values of 32, a latent of 80.
SmallFile latent_file(const std::string& architecture = "deepseek2", std::uint32_t layers = 4) {
  SmallFile file(architecture, layers);
  file.u32("attention.head_count_kv", 1).u32("attention.kv_lora_rank", 80);
  file.u32("attention.key_length", 96).u32("attention.value_length", 80);
  file.u32("attention.key_length_mla", 64).u32("attention.value_length_mla", 32);
  file.u32("rope.dimension_count", 16).remove({"attn_q", "attn_k", "attn_v"});
  return file.add({"attn_q", "attn_kv_a_mqa", "attn_kv_a_norm", "attn_k_b", "attn_v_b"});
}

SmallFile with_query_latent(const std::string& architecture = "deepseek2") {
  SmallFile file = latent_file(architecture);
  file.u32("attention.q_lora_rank", 24).remove({"attn_q"});
  return file.add({"attn_q_a", "attn_q_a_norm", "attn_q_b"});
}

LayerSpec latent_layer(std::uint32_t query_rank = 0) {
  LayerSpec layer = plain_layer();
  layer.attention.kv_heads = 1;
  layer.attention.head_dim = 96;
  layer.attention.scale = 0.125f;  // of queries with 64 channels
  layer.attention.rope.dim = 16;
  layer.attention.latent = {.rank = 80,
                            .query_rank = query_rank,
                            .plain_dim = 48,
                            .value_dim = 32,
                            .norm_epsilon = 1e-6f};
  return layer;
}

TEST(LatentFamilies, QueriesMayHaveALatent) {
  expect_layers(latent_file().spec(), 4, latent_layer());
  expect_layers(with_query_latent().spec(), 4, latent_layer(24));
  expect_layers(with_query_latent("mistral4").spec(), 4, latent_layer(24));
  EXPECT_EQ(latent_layer().attention.columns(), 4u * 32);
}

// Converters write the default of the class for queries without a latent.
TEST(LatentFamilies, ARankWithoutItsMatricesMeansNothing) {
  SmallFile file = latent_file();
  expect_layers(file.u32("attention.q_lora_rank", 1536).spec(), 4, latent_layer());
}

// The sizes of the cache may be left out, and then they follow.
TEST(LatentFamilies, TheCachedSizesFollow) {
  SmallFile file = latent_file();
  file.without_key("attention.key_length").without_key("attention.value_length");
  file.without_key("attention.head_count_kv");
  expect_layers(file.spec(), 4, latent_layer());
}

// The file has a tenth of the multiplier M; scores are sharper by (1 + 0.1 M ln 8)^2.
TEST(LatentFamilies, YarnSharpensScoresAndNotTheRotation) {
  SmallFile file = latent_file();
  file.text("rope.scaling.type", "yarn").f32("rope.scaling.factor", 8.0f);
  file.u32("rope.scaling.original_context_length", 128);
  const auto attention = [](const SmallFile& f) { return f.spec().layers[0].attention; };
  // Without the multiplier, the rotation has the amplitude of other architectures.
  EXPECT_NEAR(attention(file).rope.amplitude, 1 + 0.1 * std::log(8.0), 1e-9);
  EXPECT_EQ(attention(file).scale, 0.125f);
  file.f32("rope.scaling.yarn_log_multiplier", 0.0707f);
  EXPECT_EQ(attention(file).rope.amplitude, 1.0);
  EXPECT_NEAR(attention(file).scale, 0.125 * std::pow(1 + 0.0707 * std::log(8.0), 2), 1e-7);
}

TEST(LatentFamilies, FirstLayersAreDenseAndSharedExpertsAreOne) {
  SmallFile file = latent_file();
  file.u32("leading_dense_block_count", 4).u32("expert_count", 8).u32("expert_used_count", 2);
  file.u32("expert_feed_forward_length", 48).u32("expert_shared_count", 2);
  expect_layers(file.spec(), 4, latent_layer());
  file.u32("leading_dense_block_count", 0).remove(dense).add(routed).add(shared);
  LayerSpec layer = latent_layer();
  ExpertsSpec experts{.count = 8, .used = 2, .width = 48, .shared_width = 96};
  layer.feed_forward = {.width = 0, .experts = experts};
  expect_layers(file.spec(), 4, layer);
  // With a bias for the choice the router is a sigmoid, unless the file says otherwise.
  file.add({"exp_probs_b.bias"}).flag("expert_weights_norm", true);
  experts.router = Router::sigmoid;
  experts.selection_bias = experts.normalized = true;
  layer.feed_forward.experts = experts;
  expect_layers(file.spec(), 4, layer);
  file.u32("expert_group_count", 4).u32("expert_group_used_count", 2);
  file.u32("expert_gating_func", 1).f32("expert_weights_scale", 2.5f);
  experts.router = Router::softmax;
  experts.groups = 4;
  experts.groups_used = 2;
  experts.scale = 2.5f;
  layer.feed_forward.experts = experts;
  expect_layers(file.spec(), 4, layer);
}

// A dense model's file may have keys of experts.
TEST(LatentFamilies, DenseModelsMayStateExperts) {
  SmallFile file = latent_file();
  file.u32("leading_dense_block_count", 4).u32("expert_feed_forward_length", 96);
  file.u32("expert_shared_count", 0);
  expect_layers(file.spec(), 4, latent_layer());
}

TEST(LatentFamilies, QueriesMayHaveATemperature) {
  SmallFile file = latent_file("mistral4");
  file.f32("attention.temperature_scale", 0.25f);
  LayerSpec layer = latent_layer();
  layer.attention.temperature_beta = 0.25f;
  layer.attention.temperature_tokens = 1024;  // the context
  expect_layers(file.spec(), 4, layer);
  file.u32("attention.temperature_length", 100);
  layer.attention.temperature_tokens = 100;
  expect_layers(file.spec(), 4, layer);
}

void expect_latent_refused(const SmallFile& file, Code code, const std::string& part) {
  const Error error = file.error();
  EXPECT_EQ(error.code, code) << error.text();
  EXPECT_NE(error.message.find(part), std::string::npos) << error.text();
  EXPECT_NE(error.message.find("small.gguf"), std::string::npos) << error.text();
  EXPECT_FALSE(error.hint.empty());
}

TEST(LatentFamilies, TheMatrixOfOldFilesIsRefusedWithWhatToDo) {
  SmallFile file = latent_file();
  file.remove({"attn_k_b", "attn_v_b"}).add({"attn_kv_b"});
  file.u32("attention.head_count_kv", 4).u32("attention.key_length", 64);
  file.without_key("attention.key_length_mla").without_key("attention.value_length_mla");
  expect_latent_refused(file, Code::unsupported_architecture,
                        "attn_kv_b.weight\" holds the matrices");
  EXPECT_NE(file.error().hint.find("convert the model again"), std::string::npos);
}

TEST(LatentFamilies, SizesThatDoNotFitAreRefused) {
  constexpr Code unsupported = Code::unsupported_architecture;
  const auto with = [](const std::string& key, std::uint32_t value) {
    SmallFile file = latent_file();
    file.u32(key, value);
    return file;
  };
  const std::string parts = "all parts must be multiples of 16";
  expect_latent_refused(with("attention.kv_lora_rank", 72), unsupported, parts);
  expect_latent_refused(with("attention.kv_lora_rank", 64), unsupported, "cached keys of 96");
  expect_latent_refused(with("attention.kv_lora_rank", 0), unsupported, parts);
  expect_latent_refused(with("attention.key_length_mla", 16), unsupported,
                        parts);  // all of it rotates
  expect_latent_refused(with("attention.key_length_mla", 2048), unsupported, parts);
  expect_latent_refused(with("attention.value_length_mla", 24), unsupported, parts);
  expect_latent_refused(with("attention.value_length", 96), unsupported, "values of 96");
  expect_latent_refused(with("rope.dimension_count", 24), unsupported, parts);
  expect_latent_refused(with("attention.head_count_kv", 4), Code::gguf_malformed, "4 KV heads");
  expect_latent_refused(with("attention.head_count", 0), Code::gguf_malformed, "0 heads");
  expect_latent_refused(with("attention.head_count", 1025), Code::gguf_malformed, "1025 heads");
  for (const char* key : {"attention.kv_lora_rank", "attention.key_length_mla",
                          "attention.value_length_mla", "rope.dimension_count"}) {
    SmallFile file = latent_file();
    const auto spec = read_spec(file.without_key(key).file());
    ASSERT_FALSE(spec) << key;
    EXPECT_NE(spec.error().message.find(key), std::string::npos) << spec.error().text();
  }
}

TEST(LatentFamilies, EveryTensorIsNeeded) {
  for (const char* name : {"attn_q_a", "attn_q_a_norm", "attn_q_b", "attn_kv_a_mqa",
                           "attn_kv_a_norm", "attn_k_b", "attn_v_b", "attn_output"}) {
    const std::string tensor = "blk.2." + std::string(name) + ".weight";
    SmallFile file = with_query_latent();
    const auto spec = read_spec(file.without(tensor).file());
    ASSERT_FALSE(spec) << tensor;
    EXPECT_NE(spec.error().message.find(tensor), std::string::npos) << spec.error().text();
  }
  SmallFile more = latent_file();
  expect_latent_refused(more.add({"attn_k"}), Code::unsupported_architecture,
                        "attn_k.weight\" belongs");
}

TEST(LatentFamilies, GroupsByTheirBestExpertAreRefused) {
  SmallFile file = latent_file();
  file.u32("expert_count", 8).u32("expert_used_count", 2).remove(dense).add(routed);
  file.u32("expert_group_count", 4).u32("expert_group_used_count", 2);
  expect_latent_refused(file, Code::unsupported_architecture, "ranked by their best expert alone");
}

TEST(LatentFamilies, ImpossibleTemperaturesAreRefused) {
  SmallFile file = latent_file("mistral4");
  file.f32("attention.temperature_scale", 11.0f);
  expect_latent_refused(file, Code::gguf_malformed, "temperature_scale = 11");
  file.f32("attention.temperature_scale", 0.1f).u32("attention.temperature_length", 0);
  expect_latent_refused(file, Code::gguf_malformed, "temperature_length = 0");
}

}  // namespace
}  // namespace millrace::engine
