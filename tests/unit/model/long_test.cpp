// Long comparisons with the float64 reference.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/golden.hpp"
#include "tests/support/model_runner.hpp"
#include "tests/support/test_files.hpp"

namespace millrace::engine {
namespace {

using testing::logprob;
using testing::ModelRunner;
using testing::must;

TEST(LongContext, PerplexityOf4096Tokens) {
  const auto truth =
      nlohmann::json::parse(testing_support::reference_text("golden/score-4096.json"));
  const Tokens tokens = truth["tokens"];
  const GgufFile file = must(GgufFile::open(testing_support::model_path()));
  ModelRunner runner(file, {.kv_bytes = 256 << 20, .step_tokens = 512, .math = MathMode::exact});
  runner.set_sequences({tokens}, 256);
  double sum = 0;
  for (std::uint32_t at = 0; at < tokens.size(); at += 512) {
    runner.step({{0, at, 512}});
    for (std::uint32_t i = at; i < at + 512 && i + 1 < tokens.size(); ++i) {
      sum += logprob(runner.logits(0)[i], tokens[i + 1]);
    }
  }
  const double perplexity = std::exp(-sum / static_cast<double>(tokens.size() - 1));
  const double want = truth["perplexity"];
  EXPECT_NEAR(perplexity, want, want * 0.002);
}

// Runs every token of every golden prompt, one token a step, with the generic kernels.
TEST(GenericKernels, LogprobsAreTheReferences) {
  const GgufFile file = must(GgufFile::open(testing_support::model_path()));
  ModelRunner runner(file, {.kv_bytes = 64 << 20, .step_tokens = 128, .math = MathMode::exact},
                     {.variant = "generic"});
  for (const char* name : {"chat-turns", "raw-unicode"}) {
    const auto truth = nlohmann::json::parse(
        testing_support::reference_text(std::string("golden/") + name + ".json"));
    Tokens tokens = truth["prompt"];
    const Tokens expected = truth["tokens"];
    const auto first = static_cast<std::uint32_t>(tokens.size()) - 1;
    tokens.insert(tokens.end(), expected.begin(), expected.end() - 1);
    runner.set_sequences({tokens}, 8);
    runner.run(0, 128, first);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_NEAR(logprob(runner.logits(0)[first + i], expected[i]),
                  truth["logprobs"][i].get<double>(), 0.01)
          << name << ", token " << i;
    }
  }
}

}  // namespace
}  // namespace millrace::engine
