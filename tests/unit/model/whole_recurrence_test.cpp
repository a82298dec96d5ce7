// Layers with a recurrence in one launch give the same bits as their operations one by one, whose
// outputs may be wider or narrower than attention's; and the reasons for which such layers do not
// run in one launch.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/model/whole_layer_fixture.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t width = 256, heads = 8;

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
TinyModel plain(const std::string& architecture, std::uint32_t layers, std::uint32_t key_heads,
                std::uint32_t value_heads, std::uint32_t values, std::uint32_t key_dim) {
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
Recurrent mamba(std::uint32_t values, bool normed) {
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
Recurrent delta_net(std::uint32_t value_dim) {
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

class WholeRecurrence : public WholeLayer {
 protected:
  // As expect_same(), of all layers in one launch, also with groups that give up.
  static void expect_same_bits(const GgufFile& file, const Schedule& schedule) {
    const Made apart = run(file, false, "cpu", schedule);
    const Made whole = run(file, true, "cpu", schedule);
    EXPECT_EQ(difference(whole, apart), "");
    EXPECT_EQ(whole.launches, schedule.steps.size() * (1 + 3));
    EXPECT_GT(apart.launches, whole.launches);
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(difference(run(file, true, "cpu", schedule, "f16", {}, {}, {}, {}, 0), apart), "");
    }
  }

  // What the log says of the layers of a model, where `change` changes what the file says.
  static std::string path(const Recurrent& recurrent,
                          const std::function<void(ModelSpec&)>& change = {}) {
    const GgufFile file = recurrent.file();
    ModelSpec spec = testing::must(read_spec(file));
    if (change) change(spec);
    ModelRunner runner(
        file, {.kv_bytes = 8 << 20, .step_tokens = 8, .step_outputs = 8, .math = MathMode::fast},
        {.variant = "cpu"}, spec);
    return runner.model().info().layer_path.text();
  }
};

TEST_F(WholeRecurrence, SameBitsWhereOutputsAreWiderThanAttentions) {
  expect_same_bits(mamba(512, true).file(), mixed());
  expect_same_bits(mamba(512, false).file(), decoding(5, 40));
  expect_same_bits(delta_net(64).file(), mixed());
}

TEST_F(WholeRecurrence, SameBitsWhereOutputsAreNarrowerThanAttentions) {
  expect_same_bits(mamba(128, true).file(), mixed());
  expect_same_bits(delta_net(16).file(), mixed());
  expect_same_bits(delta_net(16).file(), chunks({1, 3, 40, 100}));
}

TEST_F(WholeRecurrence, KernelsOfItsPartsAreCompiledOnlyForLayersInParts) {
  const auto folder = std::filesystem::temp_directory_path() /
                      ("millrace-recurrence-" + std::to_string(::getpid()));
  const GgufFile file = delta_net(64).file();
  const auto compiles_parts = [&](bool whole) {
    const ModelRunner runner(file,
                             {.kv_bytes = 8 << 20,
                              .step_tokens = 8,
                              .step_outputs = 8,
                              .math = MathMode::fast,
                              .whole_layers = whole},
                             {.variant = "cpu", .cache_dir = folder.string()});
    std::uint32_t programs = 0, of_recurrences = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
      ++programs;
      of_recurrences += entry.path().filename().string().starts_with("recurrence-") ? 1 : 0;
    }
    std::filesystem::remove_all(folder);
    EXPECT_GT(programs, of_recurrences);
    return of_recurrences > 0;
  };
  EXPECT_TRUE(compiles_parts(false));
  EXPECT_FALSE(compiles_parts(true));
}

TEST_F(WholeRecurrence, LayersOfAnotherRecurrenceTakeAnotherLaunch) {
  Recurrent differs = mamba(512, true);
  differs.model.absent = {"blk.1.ssm_norm.weight"};
  EXPECT_EQ(path(differs),
            "2 layers in 2 launches: blk.1 has another recurrence than the layers before it");
}

TEST_F(WholeRecurrence, WhatKeepsLayersFromRunningWholeIsNamed) {
  const std::string parts = "2 layers in parts, several launches each: ";
  const auto each = [](const std::function<void(LayerSpec&)>& change) {
    return [change](ModelSpec& spec) { std::ranges::for_each(spec.layers, change); };
  };
  EXPECT_EQ(path(mamba(512, true), each([](LayerSpec& layer) { layer.attention = {}; })),
            parts + "no layer of the model attends");
  EXPECT_EQ(path(mamba(512, true), each([](LayerSpec& layer) {
                   layer.feed_forward = {};
                   layer.norms.feed_forward.clear();
                 })),
            parts + "layers without a gated feed-forward run in parts");
  EXPECT_EQ(path(mamba(512, true),
                 [](ModelSpec& spec) {
                   spec.layers[1].attention = {};
                   spec.layers[1].recurrence = {};
                   spec.layers[1].norms.attention.clear();
                 }),
            "2 layers, of which 1 in parts, several launches each, and 1 in 1 launch: "
            "a layer is a feed-forward alone");
  Recurrent narrow = mamba(16 * heads, true);
  narrow.model.counts["ssm.time_step_rank"] = 3;
  narrow.model.counts["ssm.group_count"] = 1;
  narrow.model.counts["ssm.inner_size"] = 48;
  narrow.model.layer_tensors["ssm_conv1d"] = {4, 112};
  narrow.model.layer_tensors["ssm_conv1d.bias"] = {112};
  narrow.model.layer_tensors["ssm_in"] = {width, 48 + 112 + 3};
  narrow.model.layer_tensors["ssm_out"] = {48, width};
  narrow.model.layer_tensors["ssm_norm"] = {48};
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    narrow.model.types[layer + "ssm_out.weight"] = TensorType::f32;
  }
  EXPECT_EQ(path(narrow), parts + "recurrences of 48 channels are not a multiple of 32");
}

}  // namespace
}  // namespace millrace::engine
