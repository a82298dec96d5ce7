#pragma once
// Tiny models with recurrent layers: Mamba 2 beside attention, and delta nets between attention.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tiny_model.hpp"

namespace millrace::engine {

using testing::Random;
using testing::TinyModel;

inline constexpr std::uint32_t width = 256, heads = 8;

// Where a recurrence is, and its tensors that are not of the model's type.
struct Recurrent {
  TinyModel model;
  std::vector<std::uint32_t> layers;

  GgufFile file() const {
    auto built = model.builder();
    Random random(9);
    for (const std::uint32_t layer : layers) {
      const std::string prefix = "blk." + std::to_string(layer) + ".";
      const auto add = [&](const char* name, float low, float high) {
        const auto values = random.floats(model.counts.at("ssm.time_step_rank"), low, high);
        built.tensor(prefix + name, {values.size()}, 0, std::as_bytes(std::span(values)));
      };
      add("ssm_a", -1.0f, -0.02f);
      add("ssm_dt.bias", -2.0f, 1.0f);
      if (model.architecture == "falcon-h1") add("ssm_d", -1.0f, 1.0f);
    }
    return TinyModel::file(built);
  }
};

// Two layers or more of 256 channels, whose attention has as many outputs.
inline TinyModel plain(const std::string& architecture, std::uint32_t layers,
                       std::uint32_t key_heads, std::uint32_t value_heads, std::uint32_t values,
                       std::uint32_t key_dim) {
  TinyModel model{.architecture = architecture,
                  .layers = layers,
                  .width = width,
                  .heads = heads,
                  .kv_heads = 4,
                  .ffn_width = 512,
                  .biases = false};
  model.type = TensorType::q4_1;
  model.counts = {{"ssm.conv_kernel", 4},
                  {"ssm.state_size", key_dim},
                  {"ssm.group_count", key_heads},
                  {"ssm.time_step_rank", value_heads},
                  {"ssm.inner_size", values}};
  const std::uint64_t channels = values + std::uint64_t{2} * key_heads * key_dim;
  model.layer_tensors["ssm_conv1d"] = {4, channels};
  model.layer_tensors["ssm_out"] = {values, width};
  for (std::uint32_t i = 0; i < layers; ++i) {
    model.types["blk." + std::to_string(i) + ".ssm_conv1d.weight"] = TensorType::f32;
  }
  return model;
}

// Mamba 2 beside attention in each layer.
inline Recurrent mamba(std::uint32_t values, bool normed) {
  constexpr std::uint32_t groups = 2, key_dim = 32;
  TinyModel model = plain("falcon-h1", 2, groups, heads, values, key_dim);
  const std::uint64_t channels = values + 2 * groups * key_dim;
  model.layer_tensors["ssm_in"] = {width, values + channels + heads};
  model.layer_tensors["ssm_conv1d.bias"] = {channels};
  if (normed) model.layer_tensors["ssm_norm"] = {values / groups, groups};
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    model.types[layer + "ssm_norm.weight"] = TensorType::f32;
  }
  return {std::move(model), {0, 1}};
}

// A delta net in layers 0 and 2, attention whose outputs are gated in the others.
inline Recurrent delta_net(std::uint32_t value_dim) {
  constexpr std::uint32_t key_heads = 2;
  TinyModel model = plain("qwen35", 4, key_heads, heads, heads * value_dim, value_dim);
  model.counts["full_attention_interval"] = 2;
  auto& tensors = model.layer_tensors;
  tensors["post_attention_norm"] = {width};
  tensors["attn_qkv"] = {width, (heads + 2 * key_heads) * value_dim};
  tensors["attn_gate"] = {width, heads * value_dim};
  tensors["ssm_beta"] = tensors["ssm_alpha"] = {width, heads};
  tensors["ssm_norm"] = {value_dim};
  tensors["attn_q_norm"] = tensors["attn_k_norm"] = {width / heads};
  for (std::uint32_t i = 0; i < model.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    model.shapes[layer + "attn_q.weight"] = {width, 2 * width};
    model.absent.push_back(layer + "ffn_norm.weight");
    const std::vector<const char*> others =
        i % 2 == 0
            ? std::vector{"attn_q", "attn_k", "attn_v", "attn_output", "attn_q_norm", "attn_k_norm"}
            : std::vector{"attn_qkv", "attn_gate",  "ssm_beta", "ssm_alpha",
                          "ssm_norm", "ssm_conv1d", "ssm_out"};
    for (const char* name : others) model.absent.push_back(layer + name + ".weight");
  }
  return {std::move(model), {0, 2}};
}

}  // namespace millrace::engine
