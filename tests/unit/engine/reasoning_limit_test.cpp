// max_reasoning_tokens through the loop: where the closing is forced, what a result tells of it,
// beside everything else that ends or divides a text, and which requests are refused.
#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {
namespace {

Tokens ids_of(const std::string& text) {
  TokenizeOptions options;
  options.parse_special = true;
  return host_parts().tokenizer.tokenize(text, options);
}

Tokens joined(std::initializer_list<Tokens> all) {
  Tokens out;
  for (const Tokens& ids : all) out.insert(out.end(), ids.begin(), ids.end());
  return out;
}

class ReasoningLimitOf : public LoopTest {
 protected:
  // A request that may reason for `limit` tokens, of a prompt that leaves the reasoning open. Its
  // script is by position, so forced tokens take the places of the script's.
  GenerationRequest thinking(RequestId seed, std::uint32_t limit, const std::string& text) {
    const Tokens prompt = ids_of("Why? <think>");
    GenerationRequest r = request(seed, static_cast<std::uint32_t>(prompt.size()), text);
    r.prompt = prompt;
    r.markers.list = {{MarkedPart::reasoning, "<think>", "</think>", true}};
    r.max_reasoning_tokens = limit;
    return r;
  }
  GenerationResult result_of(const GenerationRequest& r) {
    const Status added = loop_->add(1, r);
    EXPECT_TRUE(added) << added.error().text();
    const auto events = run();
    const Event& event = of(events, 1);
    EXPECT_FALSE(event.error);
    return event.result;
  }
  Error refusal(const GenerationRequest& r) {
    const Status added = loop_->add(1, r);
    EXPECT_FALSE(added);
    return added ? Error() : added.error();
  }

  const std::string text_ = "one two three four five six seven eight nine ten eleven twelve";
  const Tokens script_ = ids_of(text_), closing_ = ids_of("</think>");
  // The first tokens of the script, or those from one on.
  Tokens first(std::size_t count) const { return {script_.begin(), script_.begin() + long(count)}; }
  Tokens from(std::size_t at) const { return {script_.begin() + long(at), script_.end()}; }
};

TEST_F(ReasoningLimitOf, EachSizeClosesAfterExactlySoManyTokens) {
  open();
  ASSERT_GT(closing_.size(), 1u) << "the test model's marker is several tokens";
  for (const std::uint32_t limit : {0u, 1u, 2u, 5u}) {
    const auto result = result_of(thinking(1, limit, text_));
    const Choice& choice = result.choices.at(0);
    const std::size_t answer = limit + closing_.size();
    EXPECT_EQ(choice.tokens, joined({first(limit), closing_, from(answer), {end_of_text}}));
    EXPECT_EQ(choice.reasoning, *host_parts().tokenizer.detokenize(first(limit), {}));
    EXPECT_EQ(choice.text, *host_parts().tokenizer.detokenize(from(answer), {}));
    EXPECT_EQ(choice.reasoning_spans, (Tokens{0, static_cast<TokenId>(answer)}));
    EXPECT_EQ(result.usage.reasoning_tokens, answer);
    EXPECT_EQ(result.usage.completion_tokens, choice.tokens.size());
    EXPECT_EQ(choice.finish_reason, FinishReason::stop);
  }
}

TEST_F(ReasoningLimitOf, AModelThatKeepsToItIsLeftAlone) {
  open();
  GenerationRequest r = thinking(1, 9, "so it is</think>two three four five six seven eight");
  const Tokens limited = result_of(r).choices.at(0).tokens;
  r.max_reasoning_tokens.reset();
  EXPECT_EQ(limited, result_of(r).choices.at(0).tokens);
}

// The ids of step t decide what step t+1 draws, so its sampling comes after they are read; its
// forward pass does not wait. A neighbour that decides nothing gives the same tokens.
TEST_F(ReasoningLimitOf, TheForwardPassRunsAheadAndTheSamplingWaits) {
  open();
  GenerationRequest r = thinking(1, 1, text_);
  r.max_tokens = 4;
  result_of(r);
  EXPECT_EQ(runner_.calls, "fsfwsfwsfwsw");
  ASSERT_TRUE(loop_->add(2, request(2, 7, text_)));
  const auto alone = run();
  ASSERT_TRUE(loop_->add(1, thinking(1, 3, text_)));
  ASSERT_TRUE(loop_->add(2, request(2, 7, text_)));
  const auto both = run();
  EXPECT_EQ(of(both, 2).result.choices.at(0).tokens, of(alone, 2).result.choices.at(0).tokens);
  EXPECT_EQ(of(both, 1).result.choices.at(0).tokens,
            joined({first(3), closing_, from(3 + closing_.size()), {end_of_text}}));
}

TEST_F(ReasoningLimitOf, EachSampleHasItsOwn) {
  open();
  GenerationRequest r = thinking(1, 5, text_);
  r.n = 2;
  const Tokens own = ids_of("yes</think>no");
  runner_.script = [&](const SampleTask& task) {
    Sampled out = scripted(task);
    const std::size_t at = task.position - std::get<Tokens>(r.prompt).size();
    if (task.sample == 1 && !task.forced) out.id = at < own.size() ? own[at] : end_of_text;
    return out;
  };
  const auto result = result_of(r);
  EXPECT_EQ(result.choices.at(0).tokens.at(5), closing_.front());
  EXPECT_EQ(result.choices.at(0).reasoning, *host_parts().tokenizer.detokenize(first(5), {}));
  EXPECT_EQ(result.choices.at(1).reasoning, "yes");
  EXPECT_EQ(result.choices.at(1).text, "no");
}

TEST_F(ReasoningLimitOf, MaxTokensEndsTheTextAlsoInsideTheClosing) {
  open();
  GenerationRequest r = thinking(1, 2, text_);
  r.max_tokens = 3;
  const auto result = result_of(r);
  EXPECT_EQ(result.choices.at(0).tokens, joined({first(2), {closing_.front()}}));
  EXPECT_EQ(result.choices.at(0).finish_reason, FinishReason::length);
}

// A forced token ends a text as a drawn one does. Text that is held back for a stop string delays
// nothing.
TEST_F(ReasoningLimitOf, StopStringsSeeTheClosing) {
  open();
  GenerationRequest r = thinking(1, 2, text_);
  r.stops.strings = {"</think>"};
  const auto stopped = result_of(r);
  EXPECT_EQ(stopped.choices.at(0).tokens, joined({first(2), closing_}));
  EXPECT_EQ(stopped.choices.at(0).stop_string, "</think>");
  r.stops.strings = {"one two three four five six seven eight never"};
  EXPECT_EQ(result_of(r).choices.at(0).tokens.at(2), closing_.front());
}

TEST_F(ReasoningLimitOf, PartialsTellItAsTheResultDoes) {
  open();
  GenerationRequest r = thinking(1, 2, text_);
  r.partials = true;
  ASSERT_TRUE(loop_->add(1, r));
  const auto events = run();
  std::string reasoning, text;
  Tokens tokens;
  for (const PartialEvent& event : loop_->take_partials()) {
    reasoning += event.partial.reasoning;
    text += event.partial.text;
    tokens = joined({tokens, event.partial.tokens});
  }
  const Choice& choice = of(events, 1).result.choices.at(0);
  EXPECT_EQ(reasoning, choice.reasoning);
  EXPECT_EQ(text, choice.text);
  EXPECT_EQ(tokens, choice.tokens);
}

// Rows in which a request ended while its next token waited for the decision.
TEST_F(ReasoningLimitOf, ARowWhoseRequestHasEndedHarmsNobody) {
  open();
  GenerationRequest r = thinking(1, 3, "one");
  r.max_reasoning_tokens = 40;
  ASSERT_TRUE(loop_->add(1, r));
  ASSERT_TRUE(loop_->add(2, thinking(2, 3, text_)));
  const auto events = run();
  EXPECT_EQ(of(events, 1).result.choices.at(0).tokens, joined({ids_of("one"), {end_of_text}}));
  EXPECT_EQ(of(events, 2).result.choices.at(0).tokens,
            joined({first(3), closing_, from(3 + closing_.size()), {end_of_text}}));
}

TEST_F(ReasoningLimitOf, ARequestWithoutMarkersThatEndReasoningIsRefused) {
  open();
  GenerationRequest r = thinking(1, 5, text_);
  r.markers.list = {{MarkedPart::tool_call, "<call>", "</call>"}};
  EXPECT_EQ(refusal(r).code, Code::invalid_value);
  r.markers = {};
  EXPECT_NE(refusal(r).message.find("no markers set reasoning apart"), std::string::npos);
  EXPECT_NE(refusal(r).hint.find("markers \"reasoning\""), std::string::npos);
  r.prompt = Chat{{"user", "Why?"}};  // the test model is not known to reason
  EXPECT_NE(refusal(r).message.find("no markers set reasoning apart"), std::string::npos);
  r.markers.list = {{MarkedPart::reasoning, "<think>", ""}};
  EXPECT_NE(refusal(r).message.find("what \"<think>\" opens"), std::string::npos);
  r.markers.list = {{MarkedPart::channel, "<|im_start|>", "\n"}};
  EXPECT_NE(refusal(r).message.find("not those of gpt-oss"), std::string::npos);
  r.markers.list = {{MarkedPart::reasoning, "<think>", "</think>"}};
  r.stops.token_ids = {closing_.front()};
  EXPECT_TRUE(loop_->add(1, r)) << "the closing may end the text";
  r.min_tokens = 4;
  EXPECT_NE(refusal(r).message.find("min_tokens is 4"), std::string::npos);
  run();
}

// The closing of gpt-oss's messages is its text, token by token, where a vocabulary lacks them.
TEST_F(ReasoningLimitOf, AnalysisGoesOnWithTheFinalMessage) {
  open();
  const std::string header = "<|channel|>analysis<|message|>";
  const Tokens answer = ids_of("<|end|><|start|>assistant<|channel|>final<|message|>");
  GenerationRequest r = thinking(1, 2, header + text_);
  r.prompt = ids_of("<|start|>assistant");
  scripts_[1].second = static_cast<std::uint32_t>(ids_of("<|start|>assistant").size());
  r.max_tokens = 90;
  r.markers.list = {};
  for (const char* open : {"<|start|>", "<|channel|>", "<|end|>"}) {
    r.markers.list.push_back({MarkedPart::channel, open, "<|message|>"});
  }
  const auto result = result_of(r);
  const Choice& choice = result.choices.at(0);
  const Tokens begun = joined({ids_of(header + text_)});
  const auto at =
      std::search(choice.tokens.begin(), choice.tokens.end(), answer.begin(), answer.end());
  ASSERT_NE(at, choice.tokens.end());
  EXPECT_EQ(choice.reasoning, "one two");
  EXPECT_TRUE(std::equal(choice.tokens.begin(), at, begun.begin()));
  EXPECT_EQ(choice.text, *host_parts().tokenizer.detokenize(
                             Tokens(at + long(answer.size()), choice.tokens.end() - 1), {}));
}

}  // namespace
}  // namespace millrace::engine
