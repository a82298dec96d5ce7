// Which tensors a file must and may have, and where the matrices of a layer lie.
#include "engine/core/families/layer_tensors.hpp"

#include "tests/unit/families/small_file.hpp"

namespace millrace::engine {
namespace {

using testing::dense;
using testing::SmallFile;

// "NAME = ROWSxCOLUMNS[xMATRICES] at TENSOR[FIRST of ALL]" of each matrix of layer 1.
std::vector<std::string> matrices(const SmallFile& small) {
  const GgufFile file = small.file();
  const ModelSpec spec = small.spec();
  std::vector<std::string> out;
  for (const LayerMatrix& each : layer_matrices(file, spec, 1)) {
    std::string text(each.name);
    text += " = " + std::to_string(each.rows) + "x" + std::to_string(each.columns);
    if (each.matrices != 1) text += "x" + std::to_string(each.matrices);
    text += " at " + each.tensor + "[" + std::to_string(each.first_row) + " of " +
            std::to_string(each.tensor_rows) + "]";
    out.push_back(text);
  }
  return out;
}

TEST(LayerTensors, AreSeparateInMostFiles) {
  const std::vector<std::string> expected{"attn_q = 64x64 at blk.1.attn_q[0 of 64]",
                                          "attn_k = 32x64 at blk.1.attn_k[0 of 32]",
                                          "attn_v = 32x64 at blk.1.attn_v[0 of 32]",
                                          "attn_output = 64x64 at blk.1.attn_output[0 of 64]",
                                          "ffn_gate = 96x64 at blk.1.ffn_gate[0 of 96]",
                                          "ffn_up = 96x64 at blk.1.ffn_up[0 of 96]",
                                          "ffn_down = 64x96 at blk.1.ffn_down[0 of 64]"};
  EXPECT_EQ(matrices(SmallFile("llama")), expected);
}

TEST(LayerTensors, FusedOnesLieBelowEachOther) {
  SmallFile file("phi3");
  file.remove({"attn_q", "attn_k", "attn_v", "ffn_gate"}).add({"attn_qkv", "attn_qkv.bias"});
  for (int i = 0; i < 4; ++i) file.tensor("blk." + std::to_string(i) + ".ffn_up.weight", {1, 192});
  const std::vector<std::string> expected{"attn_q = 64x64 at blk.1.attn_qkv[0 of 128]",
                                          "attn_k = 32x64 at blk.1.attn_qkv[64 of 128]",
                                          "attn_v = 32x64 at blk.1.attn_qkv[96 of 128]",
                                          "attn_output = 64x64 at blk.1.attn_output[0 of 64]",
                                          "ffn_gate = 96x64 at blk.1.ffn_up[0 of 192]",
                                          "ffn_up = 96x64 at blk.1.ffn_up[96 of 192]",
                                          "ffn_down = 64x96 at blk.1.ffn_down[0 of 64]"};
  EXPECT_EQ(matrices(file), expected);
}

TEST(LayerTensors, ExpertsAreManyMatricesOfOneTensor) {
  SmallFile file("qwen2moe");
  file.u32("expert_count", 8).u32("expert_used_count", 2).u32("expert_feed_forward_length", 48);
  file.u32("expert_shared_feed_forward_length", 160).remove(dense);
  file.add({"ffn_gate_inp", "ffn_gate_up_exps", "ffn_down_exps", "ffn_gate_inp_shexp"});
  file.add({"ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"});
  const std::vector<std::string> expected{
      "ffn_gate_inp = 8x64 at blk.1.ffn_gate_inp[0 of 8]",
      "ffn_gate_exps = 48x64x8 at blk.1.ffn_gate_up_exps[0 of 96]",
      "ffn_up_exps = 48x64x8 at blk.1.ffn_gate_up_exps[48 of 96]",
      "ffn_down_exps = 64x48x8 at blk.1.ffn_down_exps[0 of 64]",
      "ffn_gate_shexp = 160x64 at blk.1.ffn_gate_shexp[0 of 160]",
      "ffn_up_shexp = 160x64 at blk.1.ffn_up_shexp[0 of 160]",
      "ffn_down_shexp = 64x160 at blk.1.ffn_down_shexp[0 of 64]",
      "ffn_gate_inp_shexp = 1x64 at blk.1.ffn_gate_inp_shexp[0 of 1]"};
  const auto got = matrices(file);
  ASSERT_EQ(got.size(), 4 + expected.size());
  EXPECT_EQ(std::vector<std::string>(got.begin() + 4, got.end()), expected);
}

TEST(LayerTensors, MissingOnesAreNamed) {
  const auto missing = [](SmallFile file, const std::string& name) {
    const Error error = file.without(name).error();
    EXPECT_EQ(error.code, Code::gguf_malformed) << error.text();
    EXPECT_NE(error.message.find("'" + name + "'"), std::string::npos) << error.text();
  };
  for (const char* name : {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
                           "ffn_gate", "ffn_up", "ffn_down"}) {
    missing(SmallFile("llama"), "blk.2." + std::string(name) + ".weight");
  }
  missing(SmallFile("llama"), "token_embd.weight");
  missing(SmallFile("llama"), "output_norm.weight");
  missing(SmallFile("llama").add({"attn_sinks"}), "blk.1.attn_sinks.weight");
  missing(SmallFile("qwen3").add({"attn_q_norm", "attn_k_norm"}), "blk.3.attn_k_norm.weight");
  SmallFile experts("minimax-m2");
  experts.u32("expert_count", 8).u32("expert_used_count", 2).remove(dense);
  experts.add({"ffn_gate_inp", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps"});
  experts.add({"attn_q_norm", "attn_k_norm", "exp_probs_b.bias"});
  missing(experts, "blk.0.ffn_gate_inp.weight");
  missing(experts, "blk.0.ffn_up_exps.weight");
  missing(experts, "blk.0.exp_probs_b.bias");
}

TEST(LayerTensors, UnknownOnesAreNamed) {
  const auto unknown = [](SmallFile file, const std::string& name) {
    const Error error = file.tensor(name).error();
    EXPECT_EQ(error.code, Code::unsupported_architecture) << error.text();
    EXPECT_NE(error.message.find("tensor \"" + name + "\" belongs to no"), std::string::npos)
        << error.text();
    EXPECT_FALSE(error.hint.empty());
  };
  for (const char* name :
       {"blk.0.attn_q_norm.weight", "blk.0.post_attention_norm.weight",
        "blk.0.ffn_gate_exps.weight", "blk.0.attn_norm.bias", "blk.0.attn_norm.scale",
        "token_embd.scale", "blk.4.attn_norm.weight", "blk.x.attn_q.weight",
        "blk.0.ffn_gate_inp.weight", "blk.0.exp_probs_b.bias", "output.bias",
        "position_embd.weight", "blk.3.nextn.eh_proj.weight", "blk.", "blk.0"}) {
    unknown(SmallFile("llama"), name);
  }
  unknown(SmallFile("cohere2")
              .f32("attention.layer_norm_epsilon", 1e-5f)
              .u32("attention.sliding_window", 64)
              .remove({"ffn_norm"}),
          "blk.0.ffn_norm.weight");
  // Fused and separate at once.
  SmallFile both("phi3");
  unknown(both.remove({"attn_q", "attn_k", "attn_v"}).add({"attn_qkv"}), "blk.0.attn_q.weight");
}

TEST(LayerTensors, MatricesMayHaveFactors) {
  for (const char* name :
       {"blk.0.attn_q.scale", "blk.3.ffn_down.scale", "output.scale", "blk.1.ffn_up.input_scale"}) {
    SmallFile file("llama");
    EXPECT_EQ(file.tensor(name).spec().layer_count(), 4u) << name;
  }
}

TEST(LayerTensors, OnlyDraftBlocksAreSkipped) {
  SmallFile file("glm4", 4);
  file.u32("nextn_predict_layers", 1).add({"post_attention_norm", "post_ffw_norm"});
  file.without("blk.3.ffn_up.weight").tensor("blk.3.nextn.eh_proj.weight");
  file.tensor("nextn.pre_projection.weight");
  EXPECT_EQ(file.spec().layer_count(), 3u);
  for (const char* name : {"blk.2.nextn.eh_proj.weight", "blk.4.nextn.eh_proj.weight"}) {
    EXPECT_EQ(SmallFile(file).tensor(name).error().code, Code::unsupported_architecture) << name;
  }
}

}  // namespace
}  // namespace millrace::engine
