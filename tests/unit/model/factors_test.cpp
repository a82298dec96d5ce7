// Models whose matrices have factors (NAME.scale): NVFP4's second scale, and factors of experts.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "engine/core/gguf/product_scale.hpp"
#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/model/truth.hpp"

namespace millrace::engine {
namespace {

using testing::GgufBuilder;
using testing::ModelRunner;
using testing::must;
using testing::Random;
using testing::TinyModel;
using testing::Truth;

using Factors = std::map<std::string, std::vector<float>>;  // by the name of the matrix

ModelOptions small(MathMode math) {
  return {.kv = "f32", .kv_bytes = 4 << 20, .step_tokens = 40, .step_outputs = 40, .math = math};
}

Tokens some_tokens() {
  Random random(5);
  Tokens tokens(40);
  for (TokenId& id : tokens) id = random.below(70);
  return tokens;
}

ModelRunner::Logits logits_of(const GgufFile& file, const ModelOptions& options,
                              const std::string& variant = "") {
  ModelRunner runner(file, options, {.variant = variant});
  runner.set_sequences({some_tokens()}, 3);
  runner.run(0, 33);
  return runner.logits(0);
}

TinyModel wide(TensorType type) {
  TinyModel model{.width = 256, .heads = 8, .kv_heads = 4, .ffn_width = 512, .biases = true};
  model.type = type;
  return model;
}

TinyModel mixtral(TensorType type) {
  TinyModel model = wide(type);
  model.biases = false;
  model.layers = 1;
  model.counts = {{"expert_count", 4}, {"expert_used_count", 2}};
  model.layer_tensors = {{"ffn_gate_inp", {256, 4}},
                         {"ffn_gate_exps", {256, 512, 4}},
                         {"ffn_up_exps", {256, 512, 4}},
                         {"ffn_down_exps", {512, 256, 4}}};
  model.types["blk.0.ffn_gate_inp.weight"] = TensorType::f32;
  model.absent = {"blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.ffn_down.weight"};
  return model;
}

GgufFile with_factors(const TinyModel& model, const Factors& factors) {
  GgufBuilder builder = model.builder();
  for (const auto& [name, values] : factors) {
    builder.tensor(name + ".scale", {values.size()}, 0, std::as_bytes(std::span(values)));
  }
  return TinyModel::file(builder);
}

// The same model in F32, its factors multiplied into the weights.
GgufFile multiplied(const TinyModel& model, const Factors& factors) {
  const GgufFile file = with_factors(model, factors);
  TinyModel bare = model;
  for (const Tensor& tensor : file.tensors()) bare.absent.emplace_back(tensor.name);
  GgufBuilder builder = bare.builder();
  for (const Tensor& tensor : file.tensors()) {
    if (tensor.name.ends_with(".scale")) continue;
    std::vector<float> values(tensor.elements());
    must(dequantize_rows(tensor, 0, tensor.rows(), values));
    const auto by = must(product_scales(file, tensor));
    for (std::size_t i = 0; i < values.size() && !by.empty(); ++i) {
      values[i] *= by[i / (values.size() / by.size())];
    }
    builder.tensor(tensor.name, {tensor.shape.begin(), tensor.shape.begin() + tensor.rank}, 0,
                   std::as_bytes(std::span(values)));
  }
  return TinyModel::file(builder);
}

const Factors of_all{{"blk.0.attn_q", {1.7f}},   {"blk.0.attn_k", {0.61f}},
                     {"blk.0.attn_v", {-1.3f}},  {"blk.0.attn_output", {0.9f}},
                     {"blk.1.ffn_gate", {1.9f}}, {"blk.1.ffn_up", {0.37f}},
                     {"blk.1.ffn_down", {1.1f}}, {"output", {0.77f}}};

TEST(Factors, AreThoseOfTheTruth) {
  for (const TensorType type : {TensorType::nvfp4, TensorType::iq4_nl}) {
    const GgufFile file = with_factors(wide(type), of_all);
    const auto truth = Truth(file).logits(some_tokens());
    const auto difference = [&](const ModelRunner::Logits& got) {
      double most = 0;
      for (std::size_t t = 0; t < got.size(); ++t) {
        for (std::size_t i = 0; i < got[t].size(); ++i) {
          most = std::max(most, std::abs(static_cast<double>(got[t][i]) - truth[t][i]));
        }
      }
      return most;
    };
    for (const std::string& variant : testing::families()) {
      EXPECT_LT(difference(logits_of(file, small(MathMode::exact), variant)), 1e-4) << variant;
    }
    // Without the factors the model is another one.
    EXPECT_GT(difference(logits_of(wide(type).file(), small(MathMode::exact))), 0.1);
  }
}

TEST(Factors, LayersRunWholeWithTheSameBits) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  const GgufFile file = with_factors(wide(TensorType::nvfp4), of_all);
  ModelOptions whole = small(MathMode::fast), parts = whole;
  parts.whole_layers = false;
  EXPECT_EQ(logits_of(file, whole, "cpu"), logits_of(file, parts, "cpu"));
}

// Factors that round nothing give the bits of the same numbers in F32.
TEST(Factors, OfExpertsAreOneEachOrOneForAll) {
  const Factors factors{{"blk.0.ffn_gate_exps", {2.0f, 0.5f, 1.0f, -4.0f}},
                        {"blk.0.ffn_up_exps", {0.25f}},
                        {"blk.0.ffn_down_exps", {1.0f, 8.0f, 0.5f, 2.0f}},
                        {"blk.0.attn_q", {0.5f}}};
  const TinyModel model = mixtral(TensorType::nvfp4);
  const auto want = logits_of(multiplied(model, factors), small(MathMode::exact));
  for (const std::string& variant : testing::families()) {
    EXPECT_EQ(logits_of(with_factors(model, factors), small(MathMode::exact), variant), want)
        << variant;
  }
  EXPECT_NE(logits_of(model.file(), small(MathMode::exact)), want);
}

TEST(Factors, ThoseThatCannotBeAreNamed) {
  const auto error = [](const TinyModel& model, const Factors& factors) {
    const auto device = testing::open_device();
    const auto loaded = Model::load(*device, with_factors(model, factors), small(MathMode::exact));
    EXPECT_FALSE(loaded);
    return loaded ? Error{} : loaded.error();
  };
  for (const TensorType type :
       {TensorType::f32, TensorType::f16, TensorType::q8_0, TensorType::q4_k}) {
    const Error refused = error(wide(type), {{"blk.0.attn_q", {2.0f}}});
    EXPECT_EQ(refused.code, Code::unsupported_tensor_type);
    EXPECT_NE(refused.message.find("\"blk.0.attn_q.weight\" is"), std::string::npos);
    EXPECT_FALSE(refused.hint.empty());
  }
  const TinyModel model = wide(TensorType::nvfp4);
  EXPECT_EQ(error(model, {{"blk.1.ffn_up", {1e30f}}}).code, Code::gguf_malformed);
  const Error two = error(model, {{"blk.1.ffn_up", {1.0f, 1.0f}}});
  EXPECT_EQ(two.code, Code::gguf_malformed);
  EXPECT_NE(two.message.find("has 2 factors for 1 matrices"), std::string::npos) << two.text();
}

}  // namespace
}  // namespace millrace::engine
