// Every way in which a text ends: the reason, its parts, and arrays as long as its tokens.
#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {
namespace {

// Requests every kind of output, so that each array can be checked for its length.
GenerationRequest with_every_output(GenerationRequest r) {
  r.logprobs.sampled = r.logprobs.prompt = true;
  r.logprobs.top = 3;
  r.logprobs.listed = {7, 9};
  return r;
}

void expect_positions(const TokenLogprobs& logprobs, std::size_t count) {
  EXPECT_EQ(logprobs.token.size(), count);
  EXPECT_EQ(logprobs.top_ids.size(), 3 * count);
  EXPECT_EQ(logprobs.top_logprobs.size(), 3 * count);
  ASSERT_TRUE(logprobs.listed);
  EXPECT_EQ(logprobs.listed->ids.size(), 2u);
  EXPECT_EQ(logprobs.listed->logprobs.size(), 2 * count);
}

void expect_whole(const GenerationResult& result, std::size_t choices) {
  ASSERT_EQ(result.choices.size(), choices);
  std::size_t tokens = 0;
  for (const Choice& choice : result.choices) {
    ASSERT_TRUE(choice.logprobs);
    expect_positions(*choice.logprobs, choice.tokens.size());
    tokens += choice.tokens.size();
  }
  EXPECT_EQ(result.usage.completion_tokens, tokens);
  expect_positions(*result.prompt_logprobs, result.prompt->size());
}

class Ends : public LoopTest {
 protected:
  // Returns the only result of a request that draws the tokens of `text`.
  GenerationResult result_of(const std::string& text,
                             const std::function<void(GenerationRequest&)>& change) {
    open();
    GenerationRequest r = with_every_output(request(1, 5, text));
    change(r);
    const Status added = loop_->add(1, r);
    EXPECT_TRUE(added) << added.error().text();
    const auto events = run();
    return events.empty() ? GenerationResult() : events[0].result;
  }
  static Tokens tokens_of(const std::string& text) {
    return host_parts().tokenizer.tokenize(text, {});
  }
};

TEST_F(Ends, LogprobArrayShortByOne_StopToken) {
  const auto result = result_of("one two", [](GenerationRequest&) {});
  EXPECT_EQ(result.choices.at(0).stop_token, end_of_text);
  expect_whole(result, 1);
}

TEST_F(Ends, LogprobArrayShortByOne_StopString) {
  const auto result =
      result_of("one two three four", [](GenerationRequest& r) { r.stops.strings = {" three"}; });
  EXPECT_EQ(result.choices.at(0).text, "one two");
  EXPECT_EQ(result.choices.at(0).tokens, tokens_of("one two three"));
  expect_whole(result, 1);
}

TEST_F(Ends, LogprobArrayShortByOne_StopSequence) {
  const Tokens sequence = tokens_of(" three four");
  const auto result = result_of("one two three four five", [&](GenerationRequest& r) {
    r.stops.sequences = {{1, 2, 3}, sequence};
  });
  const Choice& choice = result.choices.at(0);
  EXPECT_EQ(choice.finish_reason, FinishReason::stop);
  EXPECT_EQ(choice.stop_sequence, sequence);
  EXPECT_EQ(choice.text, "one two");
  EXPECT_EQ(choice.tokens, tokens_of("one two three four"));
  expect_whole(result, 1);
}

TEST_F(Ends, LogprobArrayShortByOne_Length) {
  const auto result = result_of("one two three", [](GenerationRequest& r) { r.max_tokens = 2; });
  EXPECT_EQ(result.choices.at(0).finish_reason, FinishReason::length);
  EXPECT_EQ(result.choices.at(0).text, "one two");
  expect_whole(result, 1);
}

TEST_F(Ends, LogprobArrayShortByOne_Repetition) {
  const auto result = result_of("go on and on and on and on and on", [](GenerationRequest& r) {
    r.repetition_detection = {4, 2, 3};
  });
  EXPECT_EQ(result.choices.at(0).finish_reason, FinishReason::repetition);
  EXPECT_EQ(result.choices.at(0).text, "go on and on and on and");
  expect_whole(result, 1);
}

TEST_F(Ends, LogprobArrayShortByOne_Cancel) {
  for (int when = 0; when < 12; ++when) {
    open(64, {.max_batch = 4, .step_tokens = 8, .prefill_chunk = 8, .step_outputs = 8});
    GenerationRequest r = with_every_output(request(1, 20, "a b c d e f g h i j k l", 12));
    r.n = 2;
    ASSERT_TRUE(loop_->add(1, r));
    std::vector<Event> events;
    for (int i = 0; i < when; ++i) ASSERT_TRUE(loop_->step(events));
    loop_->cancel(1);
    events = run();
    ASSERT_EQ(events.size(), 1u);
    EXPECT_TRUE(events[0].cancelled);
    expect_whole(events[0].result, 2);
  }
}

TEST_F(Ends, LogprobArrayShortByOne_Preempt) {
  open(10, {.max_batch = 4, .step_tokens = 64, .prefill_chunk = 64, .forecast_tokens = 0});
  for (RequestId id = 1; id <= 4; ++id) {
    GenerationRequest r = with_every_output(request(id, 20, "a b c d e", 60));
    r.prompt = Tokens(20, 100 + static_cast<TokenId>(id));  // requests share no page
    r.stops.ignore_eos = true;
    ASSERT_TRUE(loop_->add(id, r));
  }
  const auto events = run();
  EXPECT_GT(loop_->counters().pauses, 0u);
  ASSERT_EQ(events.size(), 4u);
  for (const Event& event : events) {
    expect_whole(event.result, 1);
    EXPECT_EQ(event.result.choices[0].tokens.size(), 60u);
    EXPECT_TRUE(event.result.choices[0].text.starts_with("a b c d e"));
  }
}

TEST_F(Ends, LogprobArrayShortByOne_SamplesOfDifferentLength) {
  open();
  GenerationRequest r = with_every_output(request(1, 6, "a b c d e f g h"));
  r.n = 3;
  runner_.script = [this](const SampleTask& task) {
    Sampled out = scripted(task);
    if (task.draw && task.position >= 6 + 2 * (task.sample + 1)) out.id = end_of_text;
    return out;
  };
  ASSERT_TRUE(loop_->add(1, r));
  const auto events = run();
  expect_whole(events.at(0).result, 3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(events[0].result.choices[i].tokens.size(), 2 * (i + 1) + 1);
  }
}

TEST_F(Ends, FirstSampledTokenLost) {
  // Prompts of one token and of several chunks, alone and beside rows that decode already.
  open(64, {.max_batch = 4, .step_tokens = 16, .prefill_chunk = 4, .step_outputs = 16});
  std::vector<Event> events;
  const std::string text = "first second third";
  const std::vector<std::uint32_t> prompts = {1, 4, 5, 23};
  for (std::uint32_t i = 0; i < prompts.size(); ++i) {
    ASSERT_TRUE(loop_->add(i + 1, request(i + 1, prompts[i], text)));
    ASSERT_TRUE(loop_->step(events));
    ASSERT_TRUE(loop_->step(events));
  }
  for (Event& event : run()) events.push_back(std::move(event));
  Tokens expected = tokens_of(text);
  expected.push_back(end_of_text);
  for (RequestId id = 1; id <= prompts.size(); ++id) {
    EXPECT_EQ(of(events, id).result.choices.at(0).tokens, expected) << id;
    EXPECT_EQ(of(events, id).result.choices.at(0).text, text) << id;
  }
}

TEST_F(Ends, SpuriousCancelAfterCompletion) {
  open();
  ASSERT_TRUE(loop_->add(1, request(1, 4, "a b")));
  ASSERT_EQ(run().size(), 1u);
  loop_->cancel(1);  // it has ended: this has no effect, also not on the next one with this id
  EXPECT_FALSE(loop_->busy());
  std::vector<Event> events;
  ASSERT_TRUE(loop_->step(events));
  EXPECT_TRUE(events.empty());
  ASSERT_TRUE(loop_->add(1, request(1, 4, "a b")));
  loop_->cancel(2);
  events = run();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_FALSE(events[0].cancelled);
  EXPECT_EQ(events[0].result.choices.at(0).finish_reason, FinishReason::stop);
}

// The partials of a request, joined, equal its result. Text that may still become a stop or a
// marker is not among them.
TEST_F(Ends, PartialsJoinedAreTheResult) {
  open(64, {.max_batch = 8, .step_tokens = 64, .prefill_chunk = 64, .step_outputs = 64});
  const std::string text = "<think>so é</think>One two END three<call>a</call><call>b";
  GenerationRequest r = with_every_output(request(1, 4, text));
  r.partials = true;
  r.n = 2;
  r.stops.strings = {"END of it"};
  r.markers.list = {{MarkedPart::reasoning, "<think>", "</think>"},
                    {MarkedPart::tool_call, "<call>", "</call>"}};
  ASSERT_TRUE(loop_->add(1, r));
  ASSERT_TRUE(loop_->add(2, request(2, 4, "nobody asked")));
  std::vector<Event> events;
  std::map<std::uint32_t, Partial> joined;
  std::size_t told = 0;
  while (loop_->busy()) {
    ASSERT_TRUE(loop_->step(events));
    for (const PartialEvent& event : loop_->take_partials()) {
      ASSERT_EQ(event.id, 1u);
      ++told;
      Partial& all = joined[event.partial.choice];
      ASSERT_EQ(event.partial.first_token, all.tokens.size());
      all.tokens.insert(all.tokens.end(), event.partial.tokens.begin(), event.partial.tokens.end());
      all.text += event.partial.text;
      all.reasoning += event.partial.reasoning;
      for (const std::string& call : event.partial.tool_calls) all.tool_calls.push_back(call);
      ASSERT_EQ(all.text.find('<'), std::string::npos);
    }
  }
  const GenerationResult& result = of(events, 1).result;
  EXPECT_EQ(told, result.usage.completion_tokens);
  for (const Choice& choice : result.choices) {
    EXPECT_EQ(joined[choice.index].tokens, choice.tokens);
    EXPECT_EQ(joined[choice.index].text, choice.text);
    EXPECT_EQ(joined[choice.index].reasoning, choice.reasoning);
    EXPECT_EQ(joined[choice.index].tool_calls, choice.tool_calls);
    EXPECT_EQ(choice.text, "One two END three");
  }
}

TEST_F(Ends, TheTextAndItsPartsByTheJobsMarkers) {
  const auto markers = [](GenerationRequest& r) {
    r.markers.list = {{MarkedPart::reasoning, "<think>", "</think>"},
                      {MarkedPart::tool_call, "<call>", "</call>"}};
  };
  const std::string text = "<think>hm, so</think>Yes.<call>{\"a\": 1}</call><call>{}</call>";
  const auto result = result_of(text, markers);
  const Choice& choice = result.choices.at(0);
  EXPECT_EQ(choice.text, "Yes.");
  EXPECT_EQ(choice.reasoning, "hm, so");
  EXPECT_EQ(choice.tool_calls, (std::vector<std::string>{"{\"a\": 1}", "{}"}));
  EXPECT_EQ(result.effective.markers.size(), 2u);
  expect_whole(result, 1);
  // A prompt that is no chat is not split by default.
  const auto whole = result_of(text, [](GenerationRequest&) {});
  EXPECT_EQ(whole.choices.at(0).text, text);
  EXPECT_FALSE(whole.choices.at(0).reasoning);
  EXPECT_TRUE(whole.effective.markers.empty());
}

TEST_F(Ends, APromptMayBeginTheReasoning) {
  open();
  GenerationRequest r = request(1, 0, "so it is</think>Yes");
  r.markers.list = {{MarkedPart::reasoning, "<think>", "</think>"}};
  const Tokens prompt = tokens_of("Is it?<think>\n");
  r.prompt = prompt;
  scripts_[1].second = static_cast<std::uint32_t>(prompt.size());
  ASSERT_TRUE(loop_->add(1, r));
  const auto events = run();
  EXPECT_EQ(of(events, 1).result.choices.at(0).reasoning, "so it is");
  EXPECT_EQ(of(events, 1).result.choices.at(0).text, "Yes");
}

// A control token has no text of its own, unless it is one of the job's markers.
TEST_F(Ends, AControlTokenCanBeAMarker) {
  TokenizeOptions options;
  options.parse_special = true;
  open();
  GenerationRequest r = request(1, 5, "");
  scripts_[1].first = host_parts().tokenizer.tokenize("ab<|im_start|>f(x)", options);
  r.markers.list = {{MarkedPart::tool_call, "<|im_start|>", ""}};
  r.stops.ignore_eos = true;
  r.max_tokens = static_cast<std::uint32_t>(scripts_[1].first.size());
  ASSERT_TRUE(loop_->add(1, r));
  const auto events = run();
  EXPECT_EQ(of(events, 1).result.choices.at(0).text, "ab");
  EXPECT_EQ(of(events, 1).result.choices.at(0).tool_calls, (std::vector<std::string>{"f(x)"}));
}

TEST_F(Ends, AModelThatIsNotKnownToWriteMarkersKeepsItsTextWhole) {
  const auto result = result_of("<think>a</think>b",
                                [](GenerationRequest& r) { r.markers.known = KnownMarkers::all; });
  EXPECT_EQ(result.choices.at(0).text, "<think>a</think>b");
  EXPECT_TRUE(result.effective.markers.empty());
}

}  // namespace
}  // namespace millrace::engine
