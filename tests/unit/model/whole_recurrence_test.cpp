// Layers with a recurrence in one launch give the same bits as their operations one by one, whose
// outputs may be wider or narrower than attention's; and the reasons for which such layers do not
// run in one launch.
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/model/recurrent_models.hpp"
#include "tests/unit/model/whole_layer_fixture.hpp"

namespace millrace::engine {
namespace {

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
      EXPECT_EQ(
          difference(run(file, true, "cpu", schedule, "f16", {}, {}, {}, {}, {.layer_patience = 0}),
                     apart),
          "");
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
