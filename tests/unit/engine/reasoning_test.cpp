// Reasoning apart from the answer, in the results of chats: by default, however the model marks it.
#include "engine/core/request/markers.hpp"
#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {
namespace {

class Reasoning : public LoopTest {
 protected:
  // A chat after whose prompt, `rendered` by its template, the model draws the tokens of `text`.
  GenerationRequest chat(const std::string& text, const std::string& rendered = "Hi") {
    chat_template_ = ChatTemplate::parse("{{ messages[0].content }}" + rendered);
    context_.chat_template = &chat_template_;
    open_with_template();
    const Tokens prompt = host_parts().tokenizer.tokenize("x" + rendered, {.parse_special = true});
    GenerationRequest out = request(1, static_cast<std::uint32_t>(prompt.size()), text);
    out.prompt = Chat{{"user", "x"}};
    return out;
  }
  void open_with_template() {
    open();
    context_.chat_template = &chat_template_;
    context_.markers = {{MarkedPart::reasoning, "<think>", "</think>", true},
                        {MarkedPart::tool_call, "<call>", "</call>"}};
    LoopOptions options;
    loop_ = std::make_unique<EngineLoop>(options, context_, *pools_, runner_, clock_);
  }
  GenerationResult result_of(const GenerationRequest& r) {
    const Status added = loop_->add(1, r);
    EXPECT_TRUE(added) << added.error().text();
    return of(run(), 1).result;
  }
  static std::size_t count(const std::string& text) {
    return host_parts().tokenizer.tokenize(text, {}).size();
  }

  Result<ChatTemplate> chat_template_ = fail(Code::no_chat_template, "", "");
};

TEST_F(Reasoning, OfAChatIsApartByDefault) {
  const auto result = result_of(chat("<think>two and two</think>Four <call>f</call>"));
  const Choice& choice = result.choices.at(0);
  EXPECT_EQ(choice.reasoning, "two and two");
  EXPECT_EQ(choice.text, "Four <call>f</call>") << "calls are split only where the job asks";
  EXPECT_EQ(result.effective.markers, std::vector<Marker>{context_.markers[0]});
}

TEST_F(Reasoning, OfOtherPromptsStaysInTheTextUnlessTheyAsk) {
  const std::string text = "<think>a</think>b";
  GenerationRequest r = chat(text);
  r.prompt = Tokens(scripts_[1].second, 100);
  EXPECT_EQ(result_of(r).choices.at(0).text, text);
  r.markers.known = KnownMarkers::reasoning;
  EXPECT_EQ(result_of(r).choices.at(0).text, "b");
}

TEST_F(Reasoning, StaysInTheTextOfAChatThatSaysSo) {
  GenerationRequest r = chat("<think>a</think>b");
  r.markers.known = KnownMarkers::none;
  const auto result = result_of(r);
  EXPECT_EQ(result.choices.at(0).text, "<think>a</think>b");
  EXPECT_FALSE(result.choices.at(0).reasoning);
  EXPECT_TRUE(result.effective.markers.empty());
  EXPECT_EQ(result.usage.reasoning_tokens, 0u);
}

TEST_F(Reasoning, MayBeginInThePromptAndEndWithTheLength) {
  GenerationRequest r = chat("so it is and so on", "<think>");
  r.max_tokens = 3;
  const auto result = result_of(r);
  const Choice& choice = result.choices.at(0);
  EXPECT_EQ(choice.finish_reason, FinishReason::length);
  EXPECT_EQ(choice.reasoning, "so it is");
  EXPECT_EQ(choice.text, "");
  EXPECT_EQ(choice.reasoning_spans, (Tokens{0, 3}));
}

TEST_F(Reasoning, IsSearchedForStopStringsAsTheAnswerIs) {
  GenerationRequest r = chat("<think>one two three</think>four");
  r.stops.strings = {"two"};
  const auto result = result_of(r);
  EXPECT_EQ(result.choices.at(0).reasoning, "one ");
  EXPECT_EQ(result.choices.at(0).text, "");
  EXPECT_EQ(result.choices.at(0).stop_string, "two");
}

TEST_F(Reasoning, TellsItsTokensBesideLogprobsOfAll) {
  const std::string thought = "<think>two and two</think>";
  GenerationRequest r = chat(thought + "Four");
  r.logprobs.sampled = true;
  r.n = 2;
  const auto result = result_of(r);
  const Choice& choice = result.choices.at(0);
  const auto first = static_cast<std::uint32_t>(count(thought + "Four") - count("Four"));
  EXPECT_EQ(choice.reasoning_spans, (Tokens{0, first}));
  EXPECT_EQ(choice.logprobs->token.size(), choice.tokens.size());
  EXPECT_EQ(result.usage.reasoning_tokens, 2 * first);
  EXPECT_EQ(result.usage.completion_tokens, 2 * choice.tokens.size());
}

// Special tokens have no text of their own, and yet they enclose the headers of channels.
TEST_F(Reasoning, OfChannelsIsApartInPartialsAndInTheResult) {
  GenerationRequest r = chat("");
  const std::string text =
      "<|im_start|>analysis<repo_name>two, two<|im_start|>final<repo_name>Four";
  scripts_[1].first = host_parts().tokenizer.tokenize(text, {.parse_special = true});
  r.markers.list = {{MarkedPart::channel, "<|im_start|>", "<repo_name>"}};
  r.partials = true;
  ASSERT_TRUE(loop_->add(1, r));
  std::vector<Event> events;
  std::string reasoning, answer;
  while (loop_->busy()) {
    ASSERT_TRUE(loop_->step(events));
    for (const PartialEvent& event : loop_->take_partials()) {
      reasoning += event.partial.reasoning;
      answer += event.partial.text;
    }
  }
  const Choice& choice = of(events, 1).result.choices.at(0);
  EXPECT_EQ(choice.reasoning, "two, two");
  EXPECT_EQ(choice.text, "Four");
  EXPECT_EQ(reasoning, "two, two");
  EXPECT_EQ(answer, "Four");
  const Tokens& tokens = choice.tokens;
  const auto second = std::find(tokens.begin() + 1, tokens.end(), tokens.front());
  EXPECT_EQ(choice.reasoning_spans, (Tokens{0, static_cast<TokenId>(second - tokens.begin())}));
}

// Splitting changes what is told of a text, never the text.
TEST_F(Reasoning, ChangesNoToken) {
  const GenerationRequest split = chat("<think>a b</think>c d");
  GenerationRequest whole = split;
  whole.markers.known = KnownMarkers::none;
  EXPECT_EQ(result_of(split).choices.at(0).tokens, result_of(whole).choices.at(0).tokens);
}

}  // namespace
}  // namespace millrace::engine
