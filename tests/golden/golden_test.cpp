// Compares the engine with the float64 reference: tests/reference/golden, which reference_llama.py
// computed from the same model file.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/golden/engine_fixture.hpp"

namespace millrace::engine {
namespace {

using nlohmann::json;

const std::vector<std::string> continuations = {"chat-capital", "chat-list",  "chat-system",
                                                "chat-turns",   "raw-code",   "raw-numbers",
                                                "raw-story",    "raw-unicode"};

json golden(const std::string& name) {
  return json::parse(testing_support::reference_text("golden/" + name + ".json"));
}

GenerationRequest greedy(Prompt prompt, std::uint32_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.max_tokens = max_tokens;
  request.sampling.temperature = 0;
  request.stops.ignore_eos = true;
  request.logprobs.sampled = true;
  return request;
}

GenerationRequest score(Tokens tokens, std::uint32_t top) {
  GenerationRequest request;
  request.task = Task::score;
  request.prompt = std::move(tokens);
  request.logprobs.top = top;
  return request;
}

Prompt prompt_of(const json& g) {
  if (!g.contains("messages")) return g["prompt_text"].get<std::string>();
  Chat chat;
  for (const json& m : g["messages"]) {
    chat.push_back({m["role"].get<std::string>(), m["content"].get<std::string>()});
  }
  return chat;
}

// Runs all eight prompts as one batch, from their text: prompt tokens, greedy tokens, logprobs.
TEST(Golden, GreedyContinuations) {
  Engine& engine = shared_engine();
  std::vector<Arrival> arrivals;
  for (std::size_t i = 0; i < continuations.size(); ++i) {
    GenerationRequest request = greedy(prompt_of(golden(continuations[i])), 48);
    request.logprobs.prompt = true;
    arrivals.push_back({static_cast<int>(i), i, request, -1});
  }
  const JobsRun run = run_jobs(engine, arrivals);
  EXPECT_GE(run.most_rows, 8u);
  for (std::size_t i = 0; i < continuations.size(); ++i) {
    SCOPED_TRACE(continuations[i]);
    const json g = golden(continuations[i]);
    const GenerationResult& result = run.events.at(i).result;
    EXPECT_EQ(*result.prompt, g["prompt"].get<Tokens>());
    const Tokens want = g["tokens"].get<Tokens>();
    const Choice& choice = result.choices.at(0);
    ASSERT_EQ(choice.tokens.size(), want.size());
    for (std::size_t t = 0; t < want.size(); ++t) {
      if (choice.tokens[t] != want[t]) {  // texts may differ after a near tie
        EXPECT_LE(g["margin"][t].get<double>(), 0.05) << "token " << t;
        break;
      }
      EXPECT_NEAR(choice.logprobs->token[t], g["logprobs"][t].get<double>(), 0.01) << t;
    }
    if (choice.tokens == want) {  // special tokens have no text
      std::string text = g["text"];
      for (const std::string mark : {"<|im_start|>", "<|im_end|>"}) {
        for (auto at = text.find(mark); at != std::string::npos; at = text.find(mark)) {
          text.erase(at, mark.size());
        }
      }
      EXPECT_EQ(choice.text, text);
    }
  }
}

// Scores the golden tokens, whatever a free run would draw, and checks every logprob and arg-max.
TEST(Golden, LogprobsAlongTheGoldenTokens) {
  Engine& engine = shared_engine();
  std::vector<Arrival> arrivals;
  for (std::size_t i = 0; i < continuations.size(); ++i) {
    const json g = golden(continuations[i]);
    Tokens tokens = g["prompt"].get<Tokens>();
    const Tokens drawn = g["tokens"].get<Tokens>();
    tokens.insert(tokens.end(), drawn.begin(), drawn.end());
    arrivals.push_back({0, i, score(tokens, 5), -1});
  }
  const JobsRun run = run_jobs(engine, arrivals);
  double worst = 0;
  for (std::size_t i = 0; i < continuations.size(); ++i) {
    SCOPED_TRACE(continuations[i]);
    const json g = golden(continuations[i]);
    const TokenLogprobs& logprobs = *run.events.at(i).result.prompt_logprobs;
    const std::size_t prompt = g["prompt"].size();
    ASSERT_EQ(logprobs.token.size(), prompt + g["tokens"].size());
    for (std::size_t t = 0; t < g["tokens"].size(); ++t) {
      const double want = g["logprobs"][t];
      EXPECT_NEAR(logprobs.token[prompt + t], want, 0.01) << "token " << t;
      worst = std::max(worst, std::fabs(logprobs.token[prompt + t] - want));
      if (g["margin"][t].get<double>() > 0.05) {
        EXPECT_EQ(logprobs.top_ids[(prompt + t) * 5], g["tokens"][t].get<TokenId>()) << t;
      }
      for (std::size_t k = 0; k < 5; ++k) {  // fp16 KV changes unlikely tokens more
        const double likely = g["top"][t][k][1];
        EXPECT_NEAR(logprobs.top_logprobs[(prompt + t) * 5 + k], likely,
                    std::max(0.01, 0.004 * std::fabs(likely)));
      }
    }
  }
  RecordProperty("worst_logprob_difference", std::to_string(worst));
  std::printf("largest logprob difference %.6f\n", worst);
}

void expect_perplexity(const std::string& name) {
  const json g = golden(name);
  const GenerationResult result = run_one(shared_engine(), score(g["tokens"].get<Tokens>(), 1));
  const TokenLogprobs& logprobs = *result.prompt_logprobs;
  const std::size_t count = g["tokens"].size();
  ASSERT_EQ(logprobs.token.size(), count);
  double sum = 0, difference = 0;
  std::size_t clear = 0, agree = 0;
  for (std::size_t t = 1; t < count; ++t) {
    sum += logprobs.token[t];
    difference += std::fabs(logprobs.token[t] - g["logprobs"][t].get<double>());
    // Entry t - 1 of the reference belongs to the logits that score token t.
    if (g["margin"][t - 1].get<double>() <= 0.05) continue;
    ++clear;
    agree += logprobs.top_ids[t] == g["argmax"][t - 1].get<TokenId>() ? 1 : 0;
  }
  const double perplexity = std::exp(-sum / static_cast<double>(count - 1));
  const double want = g["perplexity"];
  std::printf("%s: perplexity %.6f, reference %.6f (%+.4f %%), mean logprob difference %.6f\n",
              name.c_str(), perplexity, want, 100 * (perplexity / want - 1),
              difference / static_cast<double>(count - 1));
  EXPECT_NEAR(perplexity, want, want * 0.002);
  EXPECT_EQ(agree, clear);
}

TEST(Golden, Score1024) {
  expect_perplexity("score-1024");
}
TEST(Golden, Score4096) {
  expect_perplexity("score-4096");
}

}  // namespace
}  // namespace millrace::engine
