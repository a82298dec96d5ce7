// What read_spec() refuses, each by name.
#include <cmath>
#include <limits>

#include "tests/unit/families/small_file.hpp"

namespace millrace::engine {
namespace {

using testing::dense;
using testing::routed;
using testing::SmallFile;

void expect_refused(const SmallFile& file, Code code, const std::string& part) {
  const auto spec = read_spec(file.file());
  ASSERT_FALSE(spec) << part;
  EXPECT_EQ(spec.error().code, code) << spec.error().text();
  EXPECT_NE(spec.error().message.find(part), std::string::npos) << spec.error().text();
  EXPECT_NE(spec.error().message.find("small.gguf"), std::string::npos) << spec.error().text();
  EXPECT_FALSE(spec.error().hint.empty());
}

using Change = std::function<void(SmallFile&)>;
struct Case {
  std::string architecture, part;
  Change change;
};

TEST(Refusal, WhatTheEngineCannotRunIsNamed) {
  const std::vector<Case> cases{
      {"rwkv7", "architecture \"rwkv7\" is not supported", [](SmallFile&) {}},
      {"llama", "llama.rope.scaling.type = dynamic is not supported",
       [](SmallFile& f) { f.text("rope.scaling.type", "dynamic"); }},
      {"llama", "llama.rope.scaling.yarn_ext_factor = 0.5",
       [](SmallFile& f) {
         f.text("rope.scaling.type", "yarn").f32("rope.scaling.factor", 4.0f);
         f.f32("rope.scaling.yarn_ext_factor", 0.5f);
       }},
      {"llama",
       "llama.attention.sliding_window = 512: a sliding window in only some layers is not "
       "supported",
       [](SmallFile& f) {
         f.u32("attention.sliding_window", 512).u32("attention.sliding_window_pattern", 4);
       }},
      {"qwen2", "qwen2.attention.sliding_window = 300",
       [](SmallFile& f) { f.u32("attention.sliding_window", 300); }},
      {"qwen2", "qwen2.expert_count: a mixture of experts is not supported",
       [](SmallFile& f) { f.u32("expert_count", 8); }},
      {"qwen2", "qwen2.expert_used_count: a mixture of experts is not supported",
       [](SmallFile& f) { f.u32("expert_used_count", 2); }},
      {"llama", "llama.attention.causal = false is not supported",
       [](SmallFile& f) { f.flag("attention.causal", false); }},
      {"qwen2", "qwen2.pooling_type = 3", [](SmallFile& f) { f.u32("pooling_type", 3); }},
      {"llama", "llama.logit_scale = 0.5", [](SmallFile& f) { f.f32("logit_scale", 0.5f); }},
      {"llama", "llama.residual_scale = 0.5", [](SmallFile& f) { f.f32("residual_scale", 0.5f); }},
      {"llama", "llama.embedding_scale = 2", [](SmallFile& f) { f.f32("embedding_scale", 2.0f); }},
      {"llama", "llama.attention.scale = 1", [](SmallFile& f) { f.f32("attention.scale", 1.0f); }},
      {"llama", "llama.attention.clamp_kqv = 1",
       [](SmallFile& f) { f.f32("attention.clamp_kqv", 1.0f); }},
      {"llama", "llama.attention.max_alibi_bias = 8",
       [](SmallFile& f) { f.f32("attention.max_alibi_bias", 8.0f); }},
      {"llama", "llama.attention.temperature_scale = 0.1",
       [](SmallFile& f) { f.f32("attention.temperature_scale", 0.1f); }},
      {"llama", "llama.final_logit_softcapping = 1",
       [](SmallFile& f) { f.f32("final_logit_softcapping", 1.0f); }},
      {"llama", "heads of 24 key and 24 value channels",
       [](SmallFile& f) { f.u32("attention.key_length", 24).u32("attention.value_length", 24); }},
      {"llama", "heads of 32 key and 16 value channels",
       [](SmallFile& f) { f.u32("attention.key_length", 32).u32("attention.value_length", 16); }},
      {"llama", "heads of 528", [](SmallFile& f) { f.u32("attention.key_length", 528); }},
      {"llama", "\"llama.rope.freq_base_swa\" is not known",
       [](SmallFile& f) { f.f32("rope.freq_base_swa", 1e4f); }},
      {"glm4", "\"glm4.rope.dimension_sections\" is not known",
       [](SmallFile& f) {
         f.u32s("rope.dimension_sections", {8, 12, 12, 0});
       }},
      {"gemma3", "\"gemma3.attention.shared_kv_layers\" is not known",
       [](SmallFile& f) { f.u32("attention.shared_kv_layers", 2); }},
      {"phi3", "rope_factors_long.weight with phi3.rope.scaling.type = yarn",
       [](SmallFile& f) {
         f.tensor("rope_factors_long.weight", {8}).text("rope.scaling.type", "yarn");
       }},
      {"phi3", "rope_freqs.weight beside longrope's factors",
       [](SmallFile& f) {
         for (const char* name : {"rope_factors_short", "rope_factors_long", "rope_freqs"}) {
           f.tensor(std::string(name) + ".weight", {8}, std::vector<float>(8, 1.0f));
         }
       }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.part);
    SmallFile file(one.architecture);
    one.change(file);
    expect_refused(file, Code::unsupported_architecture, one.part);
  }
}

TEST(Refusal, TheHintListsAllArchitectures) {
  const std::string hint = SmallFile("rwkv7").error().hint;
  for (const char* name :
       {"llama",          "mistral3",  "qwen2",     "qwen2moe",      "qwen3",
        "qwen3moe",       "gemma2",    "gemma3",    "gpt-oss",       "granite",
        "granitemoe",     "glm4",      "glm4moe",   "minimax-m2",    "phi3",
        "olmo2",          "smollm3",   "seed_oss",  "ernie4_5",      "ernie4_5-moe",
        "hunyuan-dense",  "cohere2",   "qwen35",    "qwen35moe",     "qwen3next",
        "lfm2",           "lfm2moe",   "mamba2",    "granitehybrid", "nemotron_h",
        "nemotron_h_moe", "falcon-h1", "deepseek2", "mistral4"}) {
    EXPECT_NE((hint + ",").find(" " + std::string(name) + ","), std::string::npos) << name;
  }
}

TEST(Refusal, SizesThatCannotBeAreNamed) {
  const std::vector<Case> cases{
      {"llama", "4 heads and 3 KV heads",
       [](SmallFile& f) { f.u32("attention.head_count_kv", 3); }},
      {"llama", "0 heads", [](SmallFile& f) { f.u32("attention.head_count", 0); }},
      {"llama", "context 0", [](SmallFile& f) { f.u32("context_length", 0); }},
      {"llama", "context 4294967295", [](SmallFile& f) { f.u32("context_length", 0xffffffff); }},
      {"llama", "0 layers", [](SmallFile& f) { f.u32("block_count", 0); }},
      {"llama", "2000 layers", [](SmallFile& f) { f.u32("block_count", 2000); }},
      {"llama", "4 layers, 4 of them for drafts",
       [](SmallFile& f) { f.u32("nextn_predict_layers", 4); }},
      {"llama", "0 wide", [](SmallFile& f) { f.u32("embedding_length", 0); }},
      {"llama", "llama.feed_forward_length = 0 in layer 2",
       [](SmallFile& f) {
         f.u32s("feed_forward_length", {96, 96, 0, 96});
       }},
      {"llama", "llama.feed_forward_length = 1000000",
       [](SmallFile& f) { f.u32("feed_forward_length", 1000000); }},
      {"llama", "norm's epsilon 0.0",
       [](SmallFile& f) { f.f32("attention.layer_norm_rms_epsilon", 0.0f); }},
      {"llama", "llama.feed_forward_length holds 3 values for 4 blocks",
       [](SmallFile& f) {
         f.u32s("feed_forward_length", {96, 96, 96});
       }},
      {"llama", "'llama.feed_forward_length' is absent",
       [](SmallFile& f) { f.without_key("feed_forward_length"); }},
      {"cohere2", "'cohere2.attention.layer_norm_epsilon' is absent", [](SmallFile&) {}},
      {"llama", "llama.rope.dimension_count = 15",
       [](SmallFile& f) { f.u32("rope.dimension_count", 15); }},
      {"llama", "llama.rope.dimension_count = 32",
       [](SmallFile& f) { f.u32("rope.dimension_count", 32); }},
      {"llama", "rope_freqs.weight must hold 8 F32 values",
       [](SmallFile& f) { f.tensor("rope_freqs.weight", {7}); }},
      {"phi3", "rope_factors_long.weight must hold 8 F32 values",
       [](SmallFile& f) {
         f.tensor("rope_factors_short.weight", {8}, std::vector<float>(8, 1.0f));
         f.tensor("rope_factors_long.weight", {9});
       }},
      {"phi3", "'rope_factors_short.weight'",
       [](SmallFile& f) { f.text("rope.scaling.type", "longrope"); }},
      {"gpt-oss", "gpt-oss.attention.sliding_window is absent or 0", [](SmallFile&) {}},
      {"gemma3", "gemma3.attention.sliding_window_pattern must be an array of 4 bools",
       [](SmallFile& f) {
         f.u32("attention.sliding_window", 512).flags("attention.sliding_window_pattern", {1, 0});
       }},
      {"gemma2", "gemma2.attention.sliding_window_pattern must be an array of 4 bools",
       [](SmallFile& f) {
         f.u32s("attention.sliding_window_pattern", {1, 0, 1, 0});
       }},
      {"granite", "granite.residual_scale = -1",
       [](SmallFile& f) { f.f32("residual_scale", -1.0f); }},
      {"mistral3", "mistral3.attention.temperature_scale = -1",
       [](SmallFile& f) { f.f32("attention.temperature_scale", -1.0f); }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.part);
    SmallFile file(one.architecture);
    one.change(file);
    expect_refused(file, Code::gguf_malformed, one.part);
  }
}

TEST(Refusal, ExpertsThatCannotBeAreNamed) {
  const std::vector<Case> cases{
      {"qwen3moe", "qwen3moe.expert_count = 0", [](SmallFile& f) { f.u32("expert_count", 0); }},
      {"llama", "llama.expert_count = 0", [](SmallFile& f) { f.u32("expert_count", 0); }},
      {"llama", "llama.expert_count = 5000", [](SmallFile& f) { f.u32("expert_count", 5000); }},
      {"llama", "llama.expert_used_count = 9", [](SmallFile& f) { f.u32("expert_used_count", 9); }},
      {"llama", "llama.expert_used_count = 0", [](SmallFile& f) { f.u32("expert_used_count", 0); }},
      {"llama", "'llama.expert_used_count' is absent",
       [](SmallFile& f) { f.without_key("expert_used_count"); }},
      {"llama", "llama.expert_weights_scale = -1",
       [](SmallFile& f) { f.f32("expert_weights_scale", -1.0f); }},
      {"llama", "llama.expert_feed_forward_length = 0 in layer 0",
       [](SmallFile& f) { f.u32("expert_feed_forward_length", 0); }},
      {"llama", "llama.expert_shared_feed_forward_length = 600000",
       [](SmallFile& f) { f.u32("expert_shared_feed_forward_length", 600000); }},
      {"llama", "llama.interleave_moe_layer_step = 0",
       [](SmallFile& f) { f.u32("interleave_moe_layer_step", 0); }},
      {"llama", "from 1 of 3 groups, cannot be chosen",
       [](SmallFile& f) { f.u32("expert_group_count", 3).u32("expert_group_used_count", 1); }},
      {"llama", "from 1 of 8 groups, cannot be chosen",
       [](SmallFile& f) { f.u32("expert_group_count", 8).u32("expert_group_used_count", 1); }},
      {"llama", "from 0 of 4 groups, cannot be chosen",
       [](SmallFile& f) { f.u32("expert_group_count", 4); }},
      {"llama", "from 1 of 4 groups, cannot be chosen",
       [](SmallFile& f) {
         f.u32("expert_group_count", 4).u32("expert_group_used_count", 1);
         f.u32("expert_used_count", 3);
       }},
  };
  const auto with_experts = [](const std::string& architecture) {
    SmallFile file(architecture);
    file.u32("expert_count", 8).u32("expert_used_count", 2).remove(dense).add(routed);
    return file;
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.part);
    SmallFile file = with_experts(one.architecture);
    one.change(file);
    expect_refused(file, Code::gguf_malformed, one.part);
  }
  SmallFile file = with_experts("llama");
  expect_refused(file.u32("expert_gating_func", 4), Code::unsupported_architecture,
                 "llama.expert_gating_func = 4 is not supported");
}

TEST(Refusal, ASoftCapThatCannotBeIsNamed) {
  for (const float cap : {-1.0f, 1e-9f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    SmallFile file("llama");
    expect_refused(file.f32("attn_logit_softcapping", cap), Code::gguf_malformed,
                   "attn_logit_softcapping");
    SmallFile gemma("gemma2");
    expect_refused(gemma.f32("final_logit_softcapping", cap), Code::gguf_malformed,
                   "final_logit_softcapping");
  }
}

TEST(Refusal, RotaryNumbersThatCannotBeAreNamed) {
  const auto refused = [](const std::string& part, const Change& change) {
    SCOPED_TRACE(part);
    SmallFile file("llama");
    change(file);
    expect_refused(file, Code::gguf_malformed, part);
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float base : {0.0f, -1.0f, 0.5f, infinity, std::nanf("")}) {
    refused("rotary base", [&](SmallFile& f) { f.f32("rope.freq_base", base); });
    SmallFile gemma("gemma3");
    gemma.u32("attention.sliding_window", 512).f32("rope.freq_base_swa", base);
    expect_refused(gemma, Code::gguf_malformed, "rotary base");
  }
  for (const float factor : {-1.0f, 1e-9f, infinity, std::nanf("")}) {
    refused("rotary base", [&](SmallFile& f) { f.f32("rope.scaling.factor", factor); });
    refused("rope_freqs.weight holds a value outside", [&](SmallFile& f) {
      f.tensor("rope_freqs.weight", {8}, {1, 1, 1, 1, 1, factor, 1, 1});
    });
    refused("a rotary amplitude of",
            [&](SmallFile& f) { f.f32("rope.scaling.attn_factor", factor); });
  }
}

TEST(Refusal, YarnsNumbersThatCannotBeAreNamed) {
  const auto refused = [](const std::string& key, float value) {
    SmallFile file("llama");
    file.text("rope.scaling.type", "yarn").f32("rope.scaling.factor", 4.0f).f32(key, value);
    expect_refused(file, Code::gguf_malformed, "YaRN by factor");
  };
  for (const float factor : {0.0f, 0.5f, -4.0f, 1e7f, std::nanf("")}) {
    refused("rope.scaling.factor", factor);
  }
  for (const float beta : {0.0f, -1.0f, 1e7f, std::nanf("")}) {
    refused("rope.scaling.yarn_beta_fast", beta);
    refused("rope.scaling.yarn_beta_slow", beta);
  }
  refused("rope.scaling.yarn_beta_slow", 33.0f);  // above fast
  refused("rope.scaling.yarn_log_multiplier", -1.0f);
  refused("rope.scaling.yarn_log_multiplier", 17.0f);
  refused("rope.freq_base", 1.0f);
  for (const std::uint32_t tokens : {0u, 0xffffffffu}) {
    SmallFile file("llama");
    expect_refused(file.u32("rope.scaling.original_context_length", tokens), Code::gguf_malformed,
                   "llama.rope.scaling.original_context_length = " + std::to_string(tokens));
  }
  SmallFile local("olmo2");
  local.u32("attention.sliding_window", 128).f32("rope.freq_base_swa", 1.0f);
  local.remove({"attn_norm", "ffn_norm"}).add({"post_attention_norm", "post_ffw_norm"});
  local.add({"attn_q_norm", "attn_k_norm"});
  EXPECT_TRUE(read_spec(local.file()));  // without YaRN a base of 1 can be
}

}  // namespace
}  // namespace millrace::engine
