#pragma once
// Experts for a TinyModel.
#include <cstdint>
#include <string>

#include "tests/support/tiny_model.hpp"

namespace millrace::testing {

// Replaces a model's dense feed-forwards by eight experts of 64 channels, two of which a token
// uses. The routers are fp32, the experts' matrices of the model's type.
inline void give_experts(TinyModel& model) {
  const std::uint64_t width = model.width;
  model.layer_tensors["ffn_gate_inp"] = {width, 8};
  model.layer_tensors["ffn_gate_exps"] = {width, 64, 8};
  model.layer_tensors["ffn_up_exps"] = {width, 64, 8};
  model.layer_tensors["ffn_down_exps"] = {64, width, 8};
  model.counts["expert_count"] = 8;
  model.counts["expert_used_count"] = 2;
  model.counts["expert_feed_forward_length"] = 64;
  for (std::uint32_t i = 0; i < model.layers; ++i) {
    const std::string layer = "blk." + std::to_string(i) + ".";
    model.types[layer + "ffn_gate_inp.weight"] = engine::TensorType::f32;
    for (const char* name : {"ffn_gate", "ffn_up", "ffn_down"}) {
      model.absent.push_back(layer + name + ".weight");
      model.absent.push_back(layer + name + ".bias");
    }
  }
}

}  // namespace millrace::testing
