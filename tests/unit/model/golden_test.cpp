// Compares the real model with the float64 reference, and checks that its bits depend neither on
// the cut of a prompt nor on the other rows of a step.
#include "tests/support/golden.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/support/model_runner.hpp"
#include "tests/support/test_files.hpp"

namespace millrace::engine {
namespace {

using testing::arg_max;
using testing::logprob;
using testing::ModelRunner;
using testing::must;

nlohmann::json golden(const std::string& name) {
  return nlohmann::json::parse(testing_support::reference_text("golden/" + name + ".json"));
}

class GoldenTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    file_ = new GgufFile(must(GgufFile::open(testing_support::model_path())));
    runner_ = new ModelRunner(*file_,
                              {.kv_bytes = 512 << 20, .step_tokens = 512, .math = MathMode::exact});
  }
  static void TearDownTestSuite() {
    delete runner_;
    delete file_;
    runner_ = nullptr;
    file_ = nullptr;
  }
  static GgufFile* file_;
  static ModelRunner* runner_;
};
GgufFile* GoldenTest::file_ = nullptr;
ModelRunner* GoldenTest::runner_ = nullptr;

TEST_F(GoldenTest, LogprobsAndGreedyTokensAreTheReferences) {
  int compared = 0;
  for (const char* name : {"chat-capital", "chat-list", "chat-system", "chat-turns", "raw-code",
                           "raw-numbers", "raw-story", "raw-unicode"}) {
    const auto truth = golden(name);
    Tokens tokens = truth["prompt"];
    const Tokens expected = truth["tokens"];
    const auto first = static_cast<std::uint32_t>(tokens.size()) - 1;
    tokens.insert(tokens.end(), expected.begin(), expected.end() - 1);
    runner_->set_sequences({tokens}, 8);
    runner_->run(0, 512, first);
    for (std::size_t i = 0; i < expected.size(); ++i, ++compared) {
      const auto& row = runner_->logits(0)[first + i];
      const double want = truth["logprobs"][i], margin = truth["margin"][i];
      EXPECT_NEAR(logprob(row, expected[i]), want, 0.01) << name << ", token " << i;
      if (margin > 0.05) {
        EXPECT_EQ(arg_max(row), expected[i]) << name << ", token " << i;
      }
    }
  }
  EXPECT_EQ(compared, 8 * 48);
}

TEST_F(GoldenTest, PerplexityOf1024Tokens) {
  const auto truth = golden("score-1024");
  const Tokens tokens = truth["tokens"];
  runner_->set_sequences({tokens}, 64);
  runner_->run(0, 512);
  double sum = 0, worst = 0;
  for (std::size_t i = 1; i < tokens.size(); ++i) {
    const double got = logprob(runner_->logits(0)[i - 1], tokens[i]);
    worst = std::max(worst, std::fabs(got - truth["logprobs"][i].get<double>()));
    sum += got;
  }
  const double perplexity = std::exp(-sum / static_cast<double>(tokens.size() - 1));
  const double want = truth["perplexity"];
  EXPECT_NEAR(perplexity, want, want * 0.002);
  RecordProperty("worst_logprob_difference", std::to_string(worst));
}

TEST_F(GoldenTest, PrefillEqualsSingleStepsAcrossASegment) {
  Tokens tokens = golden("score-1024")["tokens"];
  tokens.resize(258);
  runner_->set_sequences({tokens, tokens, tokens}, 17);
  constexpr std::uint32_t from = 253;
  for (std::uint32_t at = 0; at < 250; at += 50) runner_->step({{0, at, 50}}, from);
  for (std::uint32_t at = 250; at < 258; ++at) runner_->step({{0, at, 1}}, from);
  runner_->run(1, 258, from);
  runner_->run(2, 64, from);
  for (std::uint32_t t = from; t < 258; ++t) {
    EXPECT_EQ(runner_->logits(1)[t], runner_->logits(0)[t]) << "token " << t;
    EXPECT_EQ(runner_->logits(2)[t], runner_->logits(0)[t]) << "token " << t;
  }
}

TEST_F(GoldenTest, ARowAmong7And31OthersGivesTheSameBits) {
  const Tokens text = golden("score-1024")["tokens"];
  const Tokens mine(text.begin(), text.begin() + 40);
  for (const std::uint32_t others : {7u, 31u}) {
    std::vector<Tokens> sequences{mine, mine};
    for (std::uint32_t s = 0; s < others; ++s) {
      sequences.emplace_back(text.begin() + 40 + s * 20, text.begin() + 40 + s * 20 + 24);
    }
    runner_->set_sequences(sequences, 3);
    runner_->run(0, 40, 36);  // alone, at once
    std::vector<ModelRunner::Part> parts{{1, 0, 23}};
    for (std::uint32_t s = 0; s < others; ++s) parts.push_back({s + 2, 0, s % 5 == 0 ? 3u : 13u});
    runner_->step(parts, 36);
    parts = {{1, 23, 14}};
    for (std::uint32_t s = 0; s < others; ++s) {
      const std::uint32_t done = s % 5 == 0 ? 3 : 13;
      parts.push_back({s + 2, done, 20 - done});
    }
    runner_->step(parts, 36);
    for (std::uint32_t t = 0; t < 3; ++t) {
      parts = {{1, 37 + t, 1}};
      for (std::uint32_t s = 0; s < others; ++s) parts.push_back({s + 2, 20 + t, 1});
      runner_->step(parts, 36);
    }
    for (std::uint32_t t = 36; t < 40; ++t) {
      EXPECT_EQ(runner_->logits(1)[t], runner_->logits(0)[t]) << others << " others, token " << t;
    }
  }
}

}  // namespace
}  // namespace millrace::engine
