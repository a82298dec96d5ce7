// How the layers of a loaded model run, and the reason in the log and in ModelInfo.
#include "engine/core/model/layer_path.hpp"

#include <gtest/gtest.h>

#include <string>

#include "engine/core/model/model.hpp"
#include "schemas/base/log.hpp"
#include "tests/support/device.hpp"
#include "tests/support/tiny_experts.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using millrace::testing::open_device;
using millrace::testing::TinyModel;

// A model of mixed types as in Q4_K_M: some values and feed-forwards have more bits.
TinyModel quantized() {
  TinyModel model{.width = 256, .heads = 8, .kv_heads = 4, .ffn_width = 512, .biases = false};
  model.type = TensorType::q4_k;
  return model;
}
TinyModel mixed() {
  TinyModel model = quantized();
  model.layers = 3;
  model.types = {{"blk.1.attn_v.weight", TensorType::q6_k},
                 {"blk.1.ffn_down.weight", TensorType::q6_k},
                 {"blk.2.ffn_down.weight", TensorType::q6_k}};
  return model;
}

class LayerPathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!millrace::testing::has_cpu_family()) {
      GTEST_SKIP() << millrace::testing::needs_cpu_family;
    }
  }
  void TearDown() override { set_up_logging({.level = LogLevel::off}); }

  LayerPath load(const TinyModel& model, const DeviceOptions& device_options = {.variant = "cpu"},
                 ModelOptions options = {}) {
    log_.clear();
    const auto device = open_device(device_options);
    set_up_logging({.sink = [this](std::string_view line) { log_ += line; }});
    options.kv_bytes = 1 << 20;
    options.step_tokens = options.step_outputs = 8;
    const auto loaded = millrace::testing::must(Model::load(*device, model.file(), options));
    set_up_logging({.level = LogLevel::off});
    return loaded->info().layer_path;
  }

  std::string log_;
};

TEST_F(LayerPathTest, OneTypeRunsInOneLaunch) {
  const LayerPath path = load(quantized());
  EXPECT_EQ(path.name(), "one launch");
  EXPECT_EQ(path.text(), "2 layers in one launch");
  EXPECT_NE(
      log_.find("how the layers run path=\"one launch\" layers=2 whole_launches=1 in_parts=0"),
      std::string::npos)
      << log_;
}

TEST_F(LayerPathTest, MixedTypesAndBiasesRunInOneLaunch) {
  EXPECT_EQ(load(mixed()).text(), "3 layers in one launch");
  TinyModel biased = mixed();
  biased.biases = true;
  biased.absent = {"blk.1.ffn_down.bias"};
  EXPECT_EQ(load(biased).text(), "3 layers in one launch");
}

TEST_F(LayerPathTest, TypesThatRunInPartsAreNamed) {
  TinyModel model = mixed();
  model.types["blk.1.ffn_up.weight"] = TensorType::q6_k;
  model.types["blk.2.attn_output.weight"] = TensorType::f16;
  const LayerPath path = load(model);
  EXPECT_EQ(path.name(), "parts");
  EXPECT_EQ(path.text(),
            "3 layers, of which 2 in parts, several launches each, and 1 in 1 launch: "
            "blk.1.ffn_up.weight is Q6_K, blk.1.ffn_gate.weight is Q4_K");
  const std::size_t line = log_.find("how the layers run");
  ASSERT_NE(line, std::string::npos) << log_;
  EXPECT_EQ(log_.find("how the layers run", line + 1), std::string::npos) << "once";
  EXPECT_NE(log_.find("path=parts layers=3 whole_launches=1 in_parts=2 "
                      "reason=\"blk.1.ffn_up.weight is Q6_K, blk.1.ffn_gate.weight is Q4_K\""),
            std::string::npos)
      << log_;
  model.types.erase("blk.1.ffn_up.weight");
  EXPECT_EQ(load(model).reason, "blk.2.attn_output.weight is F16, which is not quantized");
}

TEST_F(LayerPathTest, LayersWithOtherCachesTakeALaunchEach) {
  TinyModel wide = quantized();
  wide.heads = 4;  // heads of 64 channels, which packed codes need
  const LayerPath path = load(wide, {.variant = "cpu"}, {.kv = "k5v3~1,0"});
  EXPECT_EQ(path.name(), "several launches");
  EXPECT_EQ(path.text(), "2 layers in 2 launches: blk.1 stores its KV in r5/r3, blk.0 in f16/f16");
}

TEST_F(LayerPathTest, ExpertsRunInOneLaunchOrSayWhyNot) {
  TinyModel model = quantized();
  model.type = TensorType::q8_0;
  millrace::testing::give_experts(model);
  EXPECT_EQ(load(model).text(), "2 layers in one launch");
  TinyModel floats = model;
  floats.types["blk.0.ffn_down_exps.weight"] = TensorType::f16;
  EXPECT_EQ(load(floats).reason, "blk.0.ffn_down_exps.weight is F16, which is not quantized");
  TinyModel mixture = model;
  mixture.types["blk.0.ffn_up_exps.weight"] = TensorType::q4_0;
  EXPECT_EQ(load(mixture).reason, "the experts of blk.0 have matrices of several types or buffers");
  TinyModel routers = model;
  routers.types["blk.1.ffn_gate_inp.weight"] = TensorType::f16;
  EXPECT_EQ(load(routers).text(),
            "2 layers in 2 launches: blk.1 has a router of another type than blk.0");
}

TEST_F(LayerPathTest, WhatElseKeepsLayersFromRunningWholeIsNamed) {
  EXPECT_EQ(load(quantized(), {.variant = "generic"}).reason,
            "whole layers need a CPU device that shares the host's memory");
  EXPECT_EQ(load(quantized(), {.variant = "cpu"}, {.math = MathMode::exact}).reason,
            "whole layers need --math fast");
  EXPECT_EQ(load(quantized(), {.variant = "cpu"}, {.whole_layers = false}).reason,
            "whole layers are turned off");
  EXPECT_EQ(load(quantized(), {.variant = "cpu", .max_allocation_bytes = 96 << 10}).reason,
            "blk.0.ffn_gate.weight and its neighbours exceed the device's largest buffer");
  TinyModel narrow = quantized();
  narrow.heads = 16;
  EXPECT_EQ(load(narrow).reason, "heads of 16 channels are not a multiple of 32");
}

}  // namespace
}  // namespace millrace::engine
