// Whole models in math int8: against the forward pass in float64 with the same rounding, in any
// company, and refused where no kernels are.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/model/truth.hpp"

namespace millrace::engine {
namespace {

using testing::ModelRunner;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::TinyModel;
using testing::Truth;
using testing::TruthProducts;

ModelOptions options_in(MathMode math) {
  return {.kv_bytes = 16 << 20, .step_tokens = 128, .step_outputs = 128, .math = math};
}

Tokens some_tokens(std::size_t count, std::uint64_t seed) {
  Random random(seed);
  Tokens out(count);
  for (TokenId& id : out) id = random.below(70);
  return out;
}

// Matrices of many types, one of which stays fp32, over groups of columns that are not whole.
TinyModel model_of_many_types() {
  return {.type = TensorType::q8_0,
          .types = {{"blk.0.attn_k.weight", TensorType::f16},
                    {"blk.1.attn_v.weight", TensorType::bf16},
                    {"blk.0.ffn_up.weight", TensorType::q4_0},
                    {"blk.1.ffn_down.weight", TensorType::q4_1},
                    {"output.weight", TensorType::f16},
                    {"blk.1.attn_output.weight", TensorType::f32}}};
}

// The mean distance of logits from others, in units of a token's root mean square.
template <class Row>
double mean_distance(const ModelRunner::Logits& got, const std::vector<Row>& want) {
  double error = 0, size = 0;
  for (std::size_t t = 0; t < want.size(); ++t) {
    for (std::size_t v = 0; v < want[t].size(); ++v) {
      const double exact = static_cast<double>(want[t][v]);
      error += std::pow(static_cast<double>(got[t][v]) - exact, 2);
      size += exact * exact;
    }
  }
  return std::sqrt(error / size);
}

ModelRunner::Logits run_pieces(const GgufFile& file, const ModelOptions& options,
                               const Tokens& tokens, std::uint32_t chunk) {
  ModelRunner runner(file, options, {.variant = "nvidia"});
  runner.set_sequences({tokens}, 4);
  runner.run(0, chunk);
  return runner.logits(0);
}

// What is left are roundings to the other side where a number lies between two bytes.
TEST(Int8, IsCloseToFloat64WithTheSameRounding) {
  for (const TinyModel& model :
       {model_of_many_types(), TinyModel{.tied = true, .type = TensorType::q5_0}}) {
    const GgufFile file = model.file();
    const Tokens tokens = some_tokens(40, 1);
    const auto got = run_pieces(file, options_in(MathMode::int8), tokens, 40);
    const double rounded = mean_distance(got, Truth(file, TruthProducts::int8).logits(tokens));
    const double exact = mean_distance(got, Truth(file).logits(tokens));
    EXPECT_LT(rounded, 0.005);
    EXPECT_GT(exact, 2 * rounded);
    EXPECT_LT(exact, 0.03);
  }
}

TEST(Int8, RowsAmongOthersAndInAnyPiecesHaveTheSameBits) {
  const GgufFile file = model_of_many_types().file();
  ModelRunner runner(file, options_in(MathMode::int8), {.variant = "nvidia"});
  const Tokens tokens = some_tokens(60, 1);
  runner.set_sequences({tokens, some_tokens(60, 2), some_tokens(60, 3)}, 4);
  runner.run(0, 60);
  const ModelRunner::Logits whole = runner.logits(0);
  // Seven tokens at a time, among 64 others that are not the same.
  for (std::uint32_t at = 0; at < 60; at += 7) {
    const std::uint32_t count = std::min(7u, 60 - at);
    runner.step({{1, at, count}, {0, at, count}, {2, 0, 57}});
  }
  EXPECT_EQ(runner.logits(0), whole);
  for (std::uint32_t at = 0; at < 60; ++at) runner.step({{0, at, 1}});
  EXPECT_EQ(runner.logits(0), whole);
}

TEST(Int8, OtherFamiliesRefuseIt) {
  const GgufFile file = TinyModel{}.file();
  for (const std::string& variant : testing::families()) {
    if (variant == "nvidia") continue;
    const auto device = open_device({.variant = variant});
    const auto loaded = Model::load(*device, file, options_in(MathMode::int8));
    ASSERT_FALSE(loaded.has_value()) << variant;
    EXPECT_EQ(loaded.error().code, Code::invalid_value);
    EXPECT_NE(loaded.error().message.find("--math int8 needs an NVIDIA GPU"), std::string::npos);
    EXPECT_NE(loaded.error().message.find(device->info().name), std::string::npos);
    EXPECT_EQ(device->allocated_bytes(), 0u);  // before anything takes time or memory
  }
}

TEST(Int8, ResultsAndCachesHaveAFingerprintOfTheirOwn) {
  const GgufFile file = TinyModel{}.file();
  const auto device = open_device({.variant = "nvidia"});
  const auto fingerprint = [&](MathMode math) {
    return must(Model::load(*device, file, options_in(math)))->info().fingerprint;
  };
  EXPECT_NE(fingerprint(MathMode::int8), fingerprint(MathMode::fast));
}

TEST(Int8, EachModeHasAName) {
  for (const MathMode math : {MathMode::exact, MathMode::fast, MathMode::int8}) {
    EXPECT_EQ(find_math(math_name(math)), math);
  }
  EXPECT_EQ(find_math("int4"), std::nullopt);
}

}  // namespace
}  // namespace millrace::engine
