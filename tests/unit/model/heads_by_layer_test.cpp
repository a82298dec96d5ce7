// Layers that differ in heads, and a layer without attention, compute what plain loops do, and have
// keys and values of their own sizes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/model/truth.hpp"

namespace millrace::engine {
namespace {

using testing::ModelRunner;
using testing::must;
using testing::Random;
using testing::TinyModel;
using testing::Truth;

constexpr std::uint32_t length = 300;  // two segments of attention

// 2 heads of 64 channels; none; 3 of 128; 6 of 64 with a window.
TinyModel mixed_model() {
  TinyModel model{.layers = 4, .width = 128, .heads = 2, .kv_heads = 1, .biases = false};
  const auto heads = [&](const std::string& layer, std::uint64_t queries, std::uint64_t keys) {
    model.shapes[layer + "attn_q.weight"] = {128, queries};
    model.shapes[layer + "attn_k.weight"] = model.shapes[layer + "attn_v.weight"] = {128, keys};
    model.shapes[layer + "attn_output.weight"] = {queries, 128};
  };
  for (const char* name : {"norm", "q", "k", "v", "output"}) {
    model.absent.push_back("blk.1.attn_" + std::string(name) + ".weight");
  }
  heads("blk.2.", 384, 384);
  heads("blk.3.", 384, 128);
  return model;
}

ModelSpec mixed_spec() {
  ModelSpec spec =
      must(read_spec(TinyModel{.layers = 4, .width = 128, .heads = 2, .kv_heads = 1}.file()));
  const auto set = [&](std::uint32_t layer, std::uint32_t heads, std::uint32_t kv_heads,
                       std::uint32_t dim) {
    AttentionSpec& attention = spec.layers[layer].attention;
    attention.heads = heads;
    attention.kv_heads = kv_heads;
    attention.head_dim = attention.rope.dim = dim;
    attention.scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
  };
  spec.layers[1].attention = {};
  spec.layers[1].norms.attention.clear();
  set(2, 3, 3, 128);
  set(3, 6, 2, 64);
  spec.layers[3].attention.window = 40;
  return spec;
}

Tokens prompt() {
  Random random(5);
  Tokens out(length);
  for (TokenId& id : out) id = random.below(70);
  return out;
}

ModelOptions options(const std::string& kv, MathMode math, bool whole = true) {
  return {.kv = kv,
          .kv_bytes = 16 << 20,
          .step_tokens = 512,
          .step_outputs = 512,
          .math = math,
          .whole_layers = whole};
}

ModelRunner::Logits run(const TinyModel& model, const ModelOptions& how, const std::string& variant,
                        std::uint32_t chunk) {
  const GgufFile file = model.file();
  ModelRunner runner(file, how, {.variant = variant}, mixed_spec());
  runner.set_sequences({prompt()}, 19);
  runner.run(0, chunk);
  return runner.logits(0);
}

class HeadsByLayer : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (GetParam() == "cpu" && !testing::has_cpu_family()) {
      GTEST_SKIP() << testing::needs_cpu_family;
    }
  }
};

TEST_P(HeadsByLayer, LogitsAreThoseOfPlainLoops) {
  const GgufFile file = mixed_model().file();
  const auto want = Truth(file, mixed_spec()).logits(prompt());
  const auto got = run(mixed_model(), options("f32", MathMode::exact), GetParam(), length);
  double worst = 0;
  for (std::size_t t = 0; t < length; ++t) {
    for (std::size_t i = 0; i < want[t].size(); ++i) {
      worst = std::max(worst, std::fabs(static_cast<double>(got[t][i]) - want[t][i]));
    }
  }
  EXPECT_LT(worst, 2e-5);
}

// The probe, which tests keys for outliers, reads layers of several sizes.
TEST_P(HeadsByLayer, ChunksWholeLayersAndPackedKeysChangeNoBits) {
  TinyModel model = mixed_model();
  model.type = TensorType::q8_0;
  for (const std::string kv : {"f16", "q8g32", "q4g32~1,0"}) {
    const auto whole = run(model, options(kv, MathMode::fast), GetParam(), length);
    EXPECT_TRUE(run(model, options(kv, MathMode::fast), GetParam(), 7) == whole) << kv;
    EXPECT_TRUE(run(model, options(kv, MathMode::fast, false), GetParam(), length) == whole) << kv;
  }
}

TEST_P(HeadsByLayer, EveryLayerStoresItsOwnHeads) {
  const GgufFile file = mixed_model().file();
  ModelRunner runner(file, options("f16", MathMode::exact), {.variant = GetParam()}, mixed_spec());
  const ModelInfo& info = runner.model().info();
  EXPECT_EQ(info.kv, "f16/f16 x3");
  EXPECT_EQ(info.kv_token_bytes, 2 * 2 * (64 + 384 + 128));
  EXPECT_EQ(info.page_bytes, 16u * 2 * 2 * (64 + 384 + 128));
  ASSERT_EQ(info.pools.size(), 2u);
  EXPECT_EQ(info.pools[1].window, 40u);
  EXPECT_NE(info.program.find("3 heads, 3 of KV, 128 channels"), std::string::npos);
  // Of the layer without attention only the feed-forward is left.
  EXPECT_NE(info.program.find("layer 1\n  normed     = norm(hidden) * ffn_norm"), std::string::npos)
      << info.program;
}

INSTANTIATE_TEST_SUITE_P(Families, HeadsByLayer, ::testing::Values("cpu", "generic"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace millrace::engine
