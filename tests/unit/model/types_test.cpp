// Models whose weights have each quantized type, and several types in one projection.
// Dequantization is exact, so the same model in F32 gives the same bits in exact arithmetic.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <optional>
#include <string>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/gguf/quant_block.hpp"
#include "engine/core/model/backend/backend.hpp"
#include "engine/core/model/weight_uploads.hpp"
#include "engine/core/model/weights.hpp"
#include "tests/support/model_runner.hpp"
#include "tests/support/one_layer.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using testing::GgufBuilder;
using testing::ModelRunner;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::TinyModel;

ModelOptions small(MathMode math) {
  return {.kv_bytes = 4 << 20, .step_tokens = 40, .step_outputs = 40, .math = math};
}

// A model whose rows are whole super-blocks.
TinyModel wide(TensorType type) {
  TinyModel model{.layers = 1, .width = 256, .ffn_width = 256};
  model.type = type;
  return model;
}

TinyModel many_types() {
  TinyModel model = wide(TensorType::q4_1);
  model.tied = false;
  model.types = {
      {"token_embd.weight", TensorType::q6_k},       {"output.weight", TensorType::q5_1},
      {"blk.0.attn_q.weight", TensorType::q4_k},     {"blk.0.attn_k.weight", TensorType::q5_0},
      {"blk.0.attn_v.weight", TensorType::q8_0},     {"blk.0.ffn_gate.weight", TensorType::iq4_xs},
      {"blk.0.ffn_up.weight", TensorType::mxfp4},    {"blk.0.ffn_down.weight", TensorType::q5_k},
      {"blk.0.attn_output.weight", TensorType::bf16}};
  return model;
}

// Returns the same model with every tensor as F32.
GgufFile as_f32(const TinyModel& model) {
  const GgufFile file = model.file();
  TinyModel bare = model;
  for (const Tensor& tensor : file.tensors()) bare.absent.emplace_back(tensor.name);
  GgufBuilder builder = bare.builder();
  for (const Tensor& tensor : file.tensors()) {
    std::vector<float> values(tensor.elements());
    must(dequantize_rows(tensor, 0, tensor.rows(), values));
    builder.tensor(tensor.name, {tensor.shape.begin(), tensor.shape.begin() + tensor.rank}, 0,
                   std::as_bytes(std::span(values)));
  }
  return TinyModel::file(builder);
}

ModelRunner::Logits logits_of(const GgufFile& file, const std::string& variant,
                              MathMode math = MathMode::exact) {
  ModelRunner runner(file, small(math), {.variant = variant});
  Random random(5);
  Tokens tokens(40);
  for (TokenId& id : tokens) id = random.below(70);
  runner.set_sequences({tokens}, 3);
  runner.run(0, 33);
  return runner.logits(0);
}

void expect_bits_of_f32(const TinyModel& model) {
  const auto want = logits_of(as_f32(model), "");
  const GgufFile file = model.file();
  for (const std::string& variant : testing::families()) {
    EXPECT_EQ(logits_of(file, variant), want) << variant;
  }
  // If the model gave the same logits for all tokens, the test would show nothing.
  EXPECT_NE(want[0], want[1]);
}

class TypesTest : public ::testing::TestWithParam<TensorType> {};

TEST_P(TypesTest, LogitsAreThoseOfTheSameValuesInF32) {
  expect_bits_of_f32(wide(GetParam()));
}

// The bytes of a scale, and where they are in a block.
struct Scale {
  std::size_t at = 0;
  std::vector<std::uint8_t> bytes;
};

// Scales that make numbers which are not finite; NVFP4 has none.
std::vector<Scale> bad_scales(TensorType type) {
  if (type == TensorType::mxfp4) return {{0, {253}}, {0, {255}}};
  const auto& quantized = *find_quant_traits(type);
  std::vector<Scale> out;
  for (std::uint32_t half = 0; half < quantized.halves; ++half) {
    for (const std::uint16_t bad : std::to_array<std::uint16_t>({0x7c00, 0xfc00, 0x7e01})) {
      out.push_back({quantized.halves_at + 2 * half,
                     {static_cast<std::uint8_t>(bad), static_cast<std::uint8_t>(bad >> 8)}});
    }
  }
  return out;
}

TEST_P(TypesTest, ScalesThatAreNotFiniteAreRefusedWithTheirRow) {
  const auto device = open_device();
  const auto& traits = traits_of(GetParam());
  const std::size_t row_bytes = 256 / traits.block_elements * traits.block_bytes;
  const auto scales = bad_scales(GetParam());
  ASSERT_EQ(scales.empty(), GetParam() == TensorType::nvfp4);
  for (const Scale& scale : scales) {
    std::vector<std::byte> data(row_bytes * 256);
    // The scale lies in the last block of row 2.
    std::memcpy(&data[3 * row_bytes - traits.block_bytes + scale.at], scale.bytes.data(),
                scale.bytes.size());
    TinyModel model = wide(TensorType::f32);
    model.absent = {"blk.0.attn_q.weight"};
    GgufBuilder builder = model.builder();
    builder.tensor("blk.0.attn_q.weight", {256, 256}, static_cast<std::uint32_t>(GetParam()), data);
    const auto loaded = Model::load(*device, TinyModel::file(builder), small(MathMode::exact));
    ASSERT_FALSE(loaded) << "byte " << scale.at;
    EXPECT_EQ(loaded.error().code, Code::gguf_malformed);
    EXPECT_NE(loaded.error().message.find("\"blk.0.attn_q.weight\", row 2,"), std::string::npos)
        << loaded.error().text();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, TypesTest,
    ::testing::Values(TensorType::q8_0, TensorType::q6_k, TensorType::q5_0, TensorType::q5_1,
                      TensorType::q5_k, TensorType::q4_0, TensorType::q4_1, TensorType::q4_k,
                      TensorType::q3_k, TensorType::q2_k, TensorType::iq4_nl, TensorType::iq4_xs,
                      TensorType::iq3_s, TensorType::iq3_xxs, TensorType::iq2_s, TensorType::iq2_xs,
                      TensorType::iq2_xxs, TensorType::mxfp4, TensorType::nvfp4),
    [](const auto& type) { return std::string(traits_of(type.param).name); });

// A type for each matrix, as quantizers choose for models whose width is not a multiple of 256.
TEST(MixedTypes, LogitsAreThoseOfTheSameValuesInF32) {
  expect_bits_of_f32(many_types());
}

// How far logits are from others, relative to the size of these.
double away(const ModelRunner::Logits& got, const ModelRunner::Logits& from) {
  double size = 0, squares = 0;
  for (std::size_t t = 0; t < from.size(); ++t) {
    for (std::size_t v = 0; v < from[t].size(); ++v) {
      const double want = from[t][v], difference = got[t][v] - want;
      size += want * want;
      squares += difference * difference;
    }
  }
  return std::sqrt(squares / size);
}

// Codes of integers change activations by at most 1/254 of the largest of 32, halves change a
// number by at most 1/2048; no matrix may add more than its share.
TEST(MixedTypes, FastMathIsNearAndTheSameWhereCodesAre) {
  const GgufFile file = many_types().file();
  const auto exact = logits_of(file, "");
  std::optional<ModelRunner::Logits> integers;
  for (const std::string& family : testing::families()) {
    const auto fast = logits_of(file, family, MathMode::fast);
    const bool halves = testing::codes_are_halves(family);
    EXPECT_LT(away(fast, exact), halves ? 0.002 : 0.01) << family;
    EXPECT_GT(away(fast, exact), 0) << family;
    if (halves) continue;
    if (!integers) integers = fast;
    EXPECT_EQ(fast, *integers) << family;
  }
}

TEST(MixedTypes, TypesOfOneFormatShareARun) {
  const auto device = open_device();
  const auto backend = make_backend(Target(*device, one_layer({.head_dim = 32}), MathMode::fast));
  TinyModel model = many_types();
  const auto runs_of = [&](const std::vector<MatrixPart>& parts) {
    const GgufFile file = model.file();
    WeightUploads uploads(*backend, file);
    return must(load_projection(*backend, file, parts, 256, uploads)).runs.size();
  };
  const auto runs = [&] {
    return runs_of({{"blk.0.attn_q", 256}, {"blk.0.attn_k", 128}, {"blk.0.attn_v", 128}});
  };
  EXPECT_EQ(runs_of({{"blk.0.ffn_gate", 256}, {"blk.0.ffn_up", 256}}), 1u);  // of two tables
  EXPECT_EQ(runs(), 3u);                                                     // Q4_K, Q5_0, Q8_0
  model.types["blk.0.attn_k.weight"] = TensorType::q8_0;
  EXPECT_EQ(runs(), 2u);
  model.types["blk.0.attn_q.weight"] = TensorType::q8_0;
  EXPECT_EQ(runs(), 1u);
}

}  // namespace
}  // namespace millrace::engine
