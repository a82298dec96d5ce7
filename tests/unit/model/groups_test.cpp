// Work that groups claim, and phases in which they wait for each other, give the same bits for any
// number of groups: one, and more than the machine has threads, so that some begin when others are
// done.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using testing::ModelRunner;
using testing::Random;
using testing::TinyModel;

// Runs two prompts, the first so long that its attention is cut, and then steps of one token each.
std::vector<ModelRunner::Logits> run(const GgufFile& file, bool whole, std::uint32_t groups) {
  constexpr std::uint32_t lengths[] = {600, 40}, ends = 3;
  ModelRunner runner(file,
                     {.kv_bytes = 16 << 20,
                      .step_tokens = 640,
                      .step_outputs = 640,
                      .math = MathMode::fast,
                      .whole_layers = whole},
                     {.variant = "cpu", .compute_units = groups});
  Random random(11);
  std::vector<Tokens> sequences;
  for (const std::uint32_t length : lengths) {
    Tokens tokens(length);
    for (TokenId& id : tokens) id = random.below(70);
    sequences.push_back(std::move(tokens));
  }
  runner.set_sequences(sequences, 38);
  runner.step({{0, 0, lengths[0] - ends}, {1, 0, lengths[1] - ends}});
  for (std::uint32_t i = ends; i > 0; --i) {
    runner.step({{0, lengths[0] - i, 1}, {1, lengths[1] - i, 1}});
  }
  return {runner.logits(0), runner.logits(1)};
}

TEST(Groups, AnyNumberOfThemGivesTheSameBits) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  TinyModel model{.width = 256, .heads = 8, .kv_heads = 4, .ffn_width = 512, .biases = false};
  model.type = TensorType::q4_1;
  const GgufFile file = model.file();
  const auto want = run(file, true, 0);
  for (const bool whole : {true, false}) {
    for (const std::uint32_t groups : {1u, 3u, 64u}) {
      EXPECT_TRUE(run(file, whole, groups) == want)
          << groups << " groups, " << (whole ? "whole layers" : "layers in parts");
    }
  }
}

}  // namespace
}  // namespace millrace::engine
