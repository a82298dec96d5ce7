// Families with recurrent layers: which layers recur, what their recurrence is, and what is
// refused.
#include "tests/unit/families/small_file.hpp"

namespace millrace::engine {
namespace {

using testing::dense;
using testing::SmallFile;

const std::vector<std::string> attention{"attn_q", "attn_k", "attn_v", "attn_output"};

// Two layers with a delta net, two that attend.
SmallFile qwen35() {
  SmallFile file("qwen35");
  file.u32("ssm.conv_kernel", 4).u32("ssm.state_size", 32).u32("ssm.group_count", 2);
  file.u32("ssm.time_step_rank", 4).u32("ssm.inner_size", 128).u32("full_attention_interval", 2);
  file.u32s("rope.dimension_sections", {3, 3, 2, 0});
  file.remove({"ffn_norm"}).add({"post_attention_norm"});
  for (const char* layer : {"blk.0.", "blk.2."}) {
    for (const std::string& name : attention) file.without(layer + name + ".weight");
    for (const char* name :
         {"attn_qkv.weight", "attn_gate.weight", "ssm_beta.weight", "ssm_alpha.weight",
          "ssm_out.weight", "ssm_conv1d.weight", "ssm_dt.bias", "ssm_a", "ssm_norm.weight"}) {
      file.tensor(layer + std::string(name));
    }
  }
  for (const char* name : {"attn_q_norm.weight", "attn_k_norm.weight"}) {
    file.tensor("blk.1." + std::string(name)).tensor("blk.3." + std::string(name));
  }
  return file;
}

SmallFile mamba2() {
  SmallFile file("mamba2");
  file.u32("ssm.conv_kernel", 4).u32("ssm.state_size", 32).u32("ssm.group_count", 2);
  file.u32("ssm.time_step_rank", 4).u32("ssm.inner_size", 128).u32("feed_forward_length", 0);
  file.u32("attention.head_count", 0).without_key("attention.head_count_kv");
  file.remove(attention).remove(dense).remove({"ffn_norm"});
  file.add({"ssm_in", "ssm_out", "ssm_conv1d", "ssm_conv1d.bias", "ssm_dt.bias", "ssm_norm"});
  for (int i = 0; i < 4; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    file.tensor(layer + "ssm_a").tensor(layer + "ssm_d");
  }
  return file;
}

TEST(RecurrentFamilies, ADeltaNetStandsInPlaceOfAttention) {
  const ModelSpec spec = qwen35().spec();
  const RecurrenceSpec expected{.kind = RecurrenceKind::delta_net,
                                .taps = 4,
                                .channels = 2 * 2 * 32 + 128,
                                .heads = 4,
                                .key_heads = 2,
                                .key_dim = 32,
                                .value_dim = 32,
                                .keys_in_turn = true};
  ASSERT_EQ(spec.layer_count(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const LayerSpec& layer = spec.layers[i];
    EXPECT_EQ(layer.attention.exists(), i % 2 == 1) << i;
    EXPECT_EQ(layer.attention.output_gate, i % 2 == 1) << i;
    EXPECT_TRUE(layer.recurrence == (i % 2 == 1 ? RecurrenceSpec{} : expected)) << i;
    EXPECT_EQ(layer.feed_forward.width, 96u) << i;
  }
  EXPECT_TRUE(spec.has_states());
  EXPECT_EQ(expected.state_floats(), 4u * 32 * 32 + 3 * 256);
}

TEST(RecurrentFamilies, AKeyMayNameTheRecurrentLayers) {
  SmallFile file = qwen35();
  file.u32("full_attention_interval", 4).flags("attention.recurrent_layers", {1, 0, 1, 0});
  EXPECT_TRUE(file.spec().layers == qwen35().spec().layers);
}

TEST(RecurrentFamilies, MambaHasNothingElse) {
  const ModelSpec spec = mamba2().spec();
  for (const LayerSpec& layer : spec.layers) {
    EXPECT_FALSE(layer.attention.exists());
    EXPECT_FALSE(layer.feed_forward.exists());
    EXPECT_EQ(layer.recurrence.kind, RecurrenceKind::mamba2);
    EXPECT_EQ(layer.recurrence.value_dim, 32u);
    EXPECT_TRUE(layer.recurrence.normed);
    EXPECT_EQ(layer.norms.attention, "attn_norm");
    EXPECT_EQ(layer.norms.feed_forward, "");
  }
  EXPECT_FALSE(mamba2().remove({"ssm_norm"}).spec().layers[0].recurrence.normed);
}

TEST(RecurrentFamilies, WhatCannotBeIsNamed) {
  struct Case {
    std::string part;
    Code code;
    std::function<void(SmallFile&)> change;
  };
  const std::vector<Case> cases{
      {"'mamba2.ssm.conv_kernel' is absent", Code::gguf_malformed,
       [](SmallFile& f) { f.without_key("ssm.conv_kernel"); }},
      {"mamba2.ssm.conv_kernel = 1 is outside 2 to 8", Code::unsupported_architecture,
       [](SmallFile& f) { f.u32("ssm.conv_kernel", 1); }},
      {"mamba2.ssm.conv_kernel = 9 is outside 2 to 8", Code::unsupported_architecture,
       [](SmallFile& f) { f.u32("ssm.conv_kernel", 9); }},
      {"128 channels of 4 heads, 3 of keys", Code::gguf_malformed,
       [](SmallFile& f) { f.u32("ssm.group_count", 3); }},
      {"128 channels of 4 heads, 0 of keys", Code::gguf_malformed,
       [](SmallFile& f) { f.u32("ssm.group_count", 0); }},
      {"130 channels of 4 heads", Code::gguf_malformed,
       [](SmallFile& f) { f.u32("ssm.inner_size", 130); }},
      {"32 key and 24 value channels", Code::unsupported_architecture,
       [](SmallFile& f) { f.u32("ssm.inner_size", 96); }},
      {"1024 key and 32 value channels", Code::unsupported_architecture,
       [](SmallFile& f) { f.u32("ssm.state_size", 1024); }},
      {"'blk.2.ssm_a' is absent", Code::gguf_malformed,
       [](SmallFile& f) { f.without("blk.2.ssm_a"); }},
      {"tensor \"blk.1.attn_q.weight\" belongs to no mamba2 model", Code::unsupported_architecture,
       [](SmallFile& f) { f.tensor("blk.1.attn_q.weight"); }},
  };
  for (const Case& one : cases) {
    SCOPED_TRACE(one.part);
    SmallFile file = mamba2();
    one.change(file);
    const Error error = file.error();
    EXPECT_EQ(error.code, one.code) << error.text();
    EXPECT_NE(error.message.find(one.part), std::string::npos) << error.text();
  }
}

TEST(RecurrentFamilies, AWrongListOfRecurrentLayersIsNamed) {
  EXPECT_NE(qwen35().u32("full_attention_interval", 0).error().message.find("interval = 0"),
            std::string::npos);
  const Error error = qwen35().flags("attention.recurrent_layers", {1, 0}).error();
  EXPECT_NE(error.message.find("must be an array of 4 bools"), std::string::npos) << error.text();
}

}  // namespace
}  // namespace millrace::engine
