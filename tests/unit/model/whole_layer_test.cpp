// Layers in one launch against the same operations launched one by one: the same bits, whatever the
// type, the instruction of the dot products, the number of rows, and where attention is cut.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using testing::ModelRunner;
using testing::Random;
using testing::TinyModel;

// Heads of 32 and 64 channels, so that attention can write whole blocks.
TinyModel model_of(TensorType type, bool biases) {
  TinyModel model{.width = 256, .heads = 8, .kv_heads = 4, .ffn_width = 512, .biases = biases};
  if (biases) model.kv_heads = 1;
  model.type = type;
  return model;
}

struct Made {
  std::vector<ModelRunner::Logits> logits;
  std::uint64_t launches = 0;  // of the steps whose rows have one token each
};

// `rows` sequences of different lengths, begun in chunks, ended in steps of one token each.
Made run(const GgufFile& file, bool whole, const std::string& variant, std::uint32_t rows,
         std::uint32_t longest) {
  ModelRunner runner(file,
                     {.kv_bytes = 64 << 20,
                      .step_tokens = longest,
                      .step_outputs = longest,
                      .math = MathMode::fast,
                      .whole_layers = whole},
                     {.variant = variant});
  constexpr std::uint32_t ends = 4;
  std::vector<Tokens> sequences;
  for (std::uint32_t s = 0; s < rows; ++s) {
    Random random(s + 7);
    Tokens tokens(longest - s * (longest - ends - 1) / rows);
    for (TokenId& id : tokens) id = random.below(70);
    sequences.push_back(std::move(tokens));
  }
  runner.set_sequences(sequences, (longest + 15) / 16);
  const auto begun = [&](std::uint32_t s) {
    return static_cast<std::uint32_t>(sequences[s].size()) - ends;
  };
  for (std::uint32_t s = 0; s < rows; ++s) runner.step({{s, 0, begun(s)}});
  const std::uint64_t before = runner.device().launches();
  for (std::uint32_t i = 0; i < ends; ++i) {
    std::vector<ModelRunner::Part> parts;
    for (std::uint32_t s = 0; s < rows; ++s) parts.push_back({s, begun(s) + i, 1});
    runner.step(parts);
  }
  Made made{.logits = {}, .launches = runner.device().launches() - before};
  for (std::uint32_t s = 0; s < rows; ++s) made.logits.push_back(runner.logits(s));
  return made;
}

void expect_same(const TinyModel& model, const std::string& variant, std::uint32_t rows,
                 std::uint32_t longest) {
  const GgufFile file = model.file();
  const Made whole = run(file, true, variant, rows, longest);
  const Made apart = run(file, false, variant, rows, longest);
  EXPECT_EQ(whole.logits, apart.logits) << variant << ", " << rows << " rows";
  // Six launches fewer for each of two layers, in each of four steps: it was the other kernel.
  EXPECT_EQ(apart.launches - whole.launches, 4u * 2 * 6) << variant;
}

TEST(WholeLayer, SameBitsForEveryInstruction) {
  for (const Dot dot : all_dots) {
    if (!processor_has(dot)) continue;
    expect_same(model_of(TensorType::q4_1, false), "cpu-" + std::string(dot_name(dot)), 5, 40);
  }
}

TEST(WholeLayer, SameBitsForEveryFormat) {
  for (const TensorType type : {TensorType::q8_0, TensorType::q4_k, TensorType::q6_k}) {
    expect_same(model_of(type, false), "cpu", 3, 20);
  }
}

TEST(WholeLayer, SameBitsWithBiasesAndOneKvHead) {
  expect_same(model_of(TensorType::q4_1, true), "cpu", 2, 30);
}

TEST(WholeLayer, SameBitsFromOneRowToMany) {
  for (const std::uint32_t rows : {1u, 2u, 7u, 16u, 17u, 40u}) {
    expect_same(model_of(TensorType::q4_1, false), "cpu", rows, 50);
  }
}

TEST(WholeLayer, SameBitsWhereAttentionIsCut) {
  expect_same(model_of(TensorType::q4_1, false), "cpu", 2, 1020);
}

TEST(WholeLayer, FormatsThatDifferAreLaunchedOneByOne) {
  TinyModel model = model_of(TensorType::q4_1, false);
  model.types = {{"blk.0.ffn_down.weight", TensorType::q8_0},
                 {"blk.1.attn_output.weight", TensorType::f16}};
  const GgufFile file = model.file();
  const Made whole = run(file, true, "cpu", 3, 20), apart = run(file, false, "cpu", 3, 20);
  EXPECT_EQ(whole.logits, apart.logits);
  EXPECT_EQ(whole.launches, apart.launches);
}

}  // namespace
}  // namespace millrace::engine
