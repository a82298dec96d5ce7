#include "engine/core/request/engine_loop.hpp"

#include <cmath>

#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {
namespace {

void expect_aligned(const Choice& choice) {
  ASSERT_TRUE(choice.logprobs);
  EXPECT_EQ(choice.logprobs->token.size(), choice.tokens.size());
  EXPECT_EQ(choice.logprobs->top_ids.size(), choice.tokens.size() * choice.logprobs->top);
  EXPECT_EQ(choice.logprobs->top_logprobs.size(), choice.logprobs->top_ids.size());
}

TEST_F(LoopTest, EndOfTextStopsAndItsTokenIsKept) {
  open();
  GenerationRequest r = request(1, 20, "Hello world");
  r.logprobs.sampled = true;
  r.logprobs.top = 3;
  ASSERT_TRUE(loop_->add(5, r));
  const auto events = run();
  ASSERT_EQ(events.size(), 1u);
  const GenerationResult& result = events[0].result;
  const Choice& choice = result.choices.at(0);
  EXPECT_EQ(choice.text, "Hello world");
  EXPECT_EQ(choice.finish_reason, FinishReason::stop);
  EXPECT_EQ(choice.stop_token, end_of_text);
  EXPECT_EQ(choice.tokens.size(), scripts_[1].first.size() + 1);
  EXPECT_EQ(choice.tokens.back(), end_of_text);
  expect_aligned(choice);
  EXPECT_EQ(result.usage.prompt_tokens, 20u);
  EXPECT_EQ(result.usage.completion_tokens, choice.tokens.size());
  EXPECT_EQ(result.effective.engine.model, "scripted");
  EXPECT_EQ(result.effective.engine.fingerprint, "f00d");
  EXPECT_EQ(result.effective.sampling.seed, 1u);
  EXPECT_EQ(result.effective.max_tokens, 50u);
  EXPECT_FALSE(result.prompt_logprobs);
}

TEST_F(LoopTest, TellsEachRequestOnceBeforeItsFirstStep) {
  SchedulerOptions one_row;
  one_row.max_batch = 1;
  open(64, one_row);
  std::vector<std::pair<RequestId, std::string>> told;  // and what the device was asked before
  loop_->on_begin([&](const std::vector<RequestId>& ids) {
    for (const RequestId id : ids) told.emplace_back(id, runner_.calls);
  });
  ASSERT_TRUE(loop_->add(5, request(1, 3, "one two three")));
  ASSERT_TRUE(loop_->add(6, request(2, 3, "four")));
  EXPECT_TRUE(told.empty());
  EXPECT_EQ(run().size(), 2u);
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0], (std::pair<RequestId, std::string>(5, "")));
  EXPECT_EQ(told[1].first, 6u);
  EXPECT_FALSE(told[1].second.empty()) << "it waited for the row of the first";
}

TEST_F(LoopTest, AStopStringIsStrippedAndLaterTokensAreDropped) {
  open();
  GenerationRequest r = request(1, 3, "one two three four five");
  r.stops.strings = {" three"};
  r.logprobs.sampled = true;
  ASSERT_TRUE(loop_->add(1, r));
  const auto events = run();
  const Choice& choice = events.at(0).result.choices.at(0);
  EXPECT_EQ(choice.text, "one two");
  EXPECT_EQ(choice.stop_string, " three");
  EXPECT_EQ(choice.finish_reason, FinishReason::stop);
  EXPECT_EQ(choice.tokens, host_parts().tokenizer.tokenize("one two three", {}));
  expect_aligned(choice);
}

TEST_F(LoopTest, LengthKeepsWhatWasHeldBack) {
  open();
  GenerationRequest r = request(1, 3, "alpha beta gamma", 2);
  r.stops.strings = {" beta gamma"};
  r.logprobs.sampled = true;
  ASSERT_TRUE(loop_->add(1, r));
  const auto events = run();
  const Choice& choice = events.at(0).result.choices.at(0);
  EXPECT_EQ(choice.finish_reason, FinishReason::length);
  EXPECT_EQ(choice.tokens.size(), 2u);
  EXPECT_EQ(choice.text, *host_parts().tokenizer.detokenize(choice.tokens, {}));
  expect_aligned(choice);
}

TEST_F(LoopTest, TextNeverSplitsACharacter) {
  open();
  const std::string text = "東京 🦀 Ελλάδα";
  const auto count = static_cast<std::uint32_t>(host_parts().tokenizer.tokenize(text, {}).size());
  for (std::uint32_t cut = 1; cut <= count; ++cut) {
    ASSERT_TRUE(loop_->add(cut, request(cut, 3, text, cut)));
  }
  const auto events = run();
  for (std::uint32_t cut = 1; cut <= count; ++cut) {
    const Choice& choice = of(events, cut).result.choices.at(0);
    EXPECT_EQ(choice.tokens.size(), cut);
    EXPECT_EQ(choice.text, *host_parts().tokenizer.detokenize(choice.tokens, {}));
  }
  EXPECT_EQ(of(events, count).result.choices.at(0).text, text);
}

TEST_F(LoopTest, MinTokensBansTheStopTokensForThatLong) {
  open();
  GenerationRequest r = request(1, 3, "a b c d e f");
  r.min_tokens = 3;
  r.stops.token_ids = {9};
  ASSERT_TRUE(loop_->add(1, r));
  run();
  const std::size_t ends = host_parts().tokenizer.end_tokens().size() + 1;
  ASSERT_GE(runner_.banned.size(), 4u);
  for (std::size_t i = 0; i < runner_.banned.size(); ++i) {
    EXPECT_EQ(runner_.banned[i], i < 3 ? ends : 0u) << i;
  }
}

TEST_F(LoopTest, ScoreGivesThePromptsLogprobsAndDrawsNothing) {
  open();
  const std::vector<std::uint32_t> sizes = {1, 2, 40, 300};
  for (const std::uint32_t size : sizes) {
    GenerationRequest r = request(1, size, "");
    r.task = Task::score;
    r.max_tokens.reset();
    r.logprobs.top = 2;
    ASSERT_TRUE(loop_->add(size, r));
  }
  const auto events = run();
  for (const std::uint32_t size : sizes) {
    const GenerationResult& result = of(events, size).result;
    EXPECT_TRUE(result.choices.empty());
    ASSERT_TRUE(result.prompt && result.prompt_logprobs);
    EXPECT_EQ(*result.prompt, Tokens(size, 100));
    EXPECT_EQ(result.prompt_logprobs->token.size(), size);
    EXPECT_EQ(result.prompt_logprobs->top_ids.size(), size * 2);
    EXPECT_TRUE(std::isnan(result.prompt_logprobs->token[0]));
    EXPECT_TRUE(std::isnan(result.prompt_logprobs->top_logprobs[1]));
    for (std::uint32_t i = 1; i < size; ++i) EXPECT_EQ(result.prompt_logprobs->token[i], -0.5f);
    EXPECT_EQ(result.usage.completion_tokens, 0u);
  }
}

TEST_F(LoopTest, SamplesEndEachInItsTurnAndTheResultHasAll) {
  open();
  GenerationRequest r = request(1, 30, "");
  r.n = 4;
  r.logprobs.sampled = true;
  runner_.script = [&](const SampleTask& task) {  // sample i stops after 2 + 3 i tokens
    Sampled out = scripted(task);
    out.id = task.position - 30 < 2 + 3 * task.sample ? 500 + task.sample : end_of_text;
    return out;
  };
  ASSERT_TRUE(loop_->add(1, r));
  const auto events = run();
  ASSERT_EQ(events.at(0).result.choices.size(), 4u);
  for (std::uint32_t i = 0; i < 4; ++i) {
    const Choice& choice = events[0].result.choices[i];
    EXPECT_EQ(choice.index, i);
    EXPECT_EQ(choice.tokens.size(), 3 + 3 * i);
    EXPECT_EQ(choice.tokens[0], 500 + i);
    expect_aligned(choice);
  }
  EXPECT_EQ(events[0].result.usage.prompt_tokens, 30u);
  EXPECT_EQ(events[0].result.usage.completion_tokens, 3u + 6 + 9 + 12);
}

TEST_F(LoopTest, CancelAtEveryStage) {
  int before = 0, after = 0;
  for (int when = 0; when < 30; ++when) {
    open(64, {.max_batch = 2, .step_tokens = 16, .prefill_chunk = 16, .step_outputs = 16});
    GenerationRequest victim = request(1, 60, "a b c d e f g h i j k l m n o p q", 12);
    victim.logprobs.sampled = true;
    victim.logprobs.prompt = true;
    victim.n = 2;
    ASSERT_TRUE(loop_->add(1, victim));
    ASSERT_TRUE(loop_->add(2, request(2, 20, "the other one goes on")));
    std::vector<Event> events;
    for (int i = 0; i < when; ++i) ASSERT_TRUE(loop_->step(events));
    const bool early =
        std::none_of(events.begin(), events.end(), [](const Event& e) { return e.id == 1; });
    loop_->cancel(1);
    loop_->cancel(1);  // twice is once
    loop_->cancel(99);
    if (loop_->busy()) {
      ASSERT_TRUE(loop_->step(events));  // a cancel takes at most one step
    }
    ASSERT_TRUE(std::ranges::any_of(events, [](const Event& e) { return e.id == 1; })) << when;
    for (Event& event : run()) events.push_back(std::move(event));
    ASSERT_EQ(events.size(), 2u) << when;
    EXPECT_EQ(of(events, 2).result.choices.at(0).text, "the other one goes on");
    EXPECT_FALSE(of(events, 2).cancelled);
    const Event& event = of(events, 1);
    EXPECT_EQ(event.cancelled, early) << when;
    ++(early ? before : after);
    for (const Choice& choice : event.result.choices) {
      expect_aligned(choice);
      EXPECT_EQ(choice.finish_reason,
                choice.tokens.size() < 12 ? FinishReason::cancelled : FinishReason::length);
    }
    EXPECT_EQ(event.result.prompt->size(), event.result.prompt_logprobs->token.size());
  }
  EXPECT_GT(before, 10);
  EXPECT_GT(after, 0);
}

TEST_F(LoopTest, ADeviceErrorFailsTheRequestsOfItsStepWithTheDevicesMessage) {
  auto& r = runner_;
  for (std::function<bool()>* const fails : {&r.forward_fails, &r.sample_fails, &r.wait_fails}) {
    open(64, {.max_batch = 2, .step_tokens = 16, .prefill_chunk = 8, .step_outputs = 16});
    for (RequestId id = 1; id <= 4; ++id) {
      ASSERT_TRUE(loop_->add(id, request(id, 4, "fine")));
    }
    int step = 0;
    *fails = [&] { return ++step == 2; };
    const auto events = run();
    *fails = nullptr;
    const bool at_end = fails == &runner_.wait_fails;
    ASSERT_EQ(events.size(), 4u);
    int failed = 0;
    for (const Event& event : events) {
      if (!event.error) {
        EXPECT_EQ(event.result.choices.at(0).text, "fine");
        continue;
      }
      ++failed;
      EXPECT_EQ(event.error->code, at_end ? Code::device_error : Code::out_of_memory);
      EXPECT_EQ(event.error->message, at_end ? "the kernel broke" : "no memory");
    }
    EXPECT_EQ(failed, 2);  // the two that ran; waiting ones had no row in that step
  }
}

TEST_F(LoopTest, ALostDeviceFailsAllAndIsReported) {
  open(64, {.max_batch = 1, .step_tokens = 16, .prefill_chunk = 8, .step_outputs = 16});
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(loop_->add(id, request(id, 4, "fine")));
  runner_.forward_fails = [] { return true; };
  runner_.lost = true;
  std::vector<Event> events;
  const Status status = loop_->step(events);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().message, "the device is gone");
  EXPECT_EQ(events.size(), 3u);
  for (const Event& event : events) EXPECT_TRUE(event.error);
}

TEST_F(LoopTest, DroppedInTheMiddleItWaitsForTheStepThatWritesItsMemory) {
  open();
  ASSERT_TRUE(loop_->add(1, request(1, 4, "never read")));
  std::vector<Event> events;
  ASSERT_TRUE(loop_->step(events));
  EXPECT_EQ(runner_.under_way(), 1u);
  loop_.reset();
  EXPECT_EQ(runner_.under_way(), 0u);
}

TEST_F(LoopTest, AFaultyRowFailsItsRequestAlone) {
  open();
  ASSERT_TRUE(loop_->add(1, request(1, 4, "good")));
  ASSERT_TRUE(loop_->add(2, request(2, 4, "bad")));
  ASSERT_TRUE(loop_->add(3, request(3, 4, "none")));
  runner_.script = [&](const SampleTask& task) {
    Sampled out = scripted(task);
    if (task.sampling.seed == 2u) out.fault = SampleFault::not_a_number;
    if (task.sampling.seed == 3u) out.fault = SampleFault::nothing_left;
    return out;
  };
  const auto events = run();
  EXPECT_EQ(of(events, 1).result.choices.at(0).text, "good");
  ASSERT_TRUE(of(events, 2).error && of(events, 3).error);
  EXPECT_EQ(of(events, 2).error->code, Code::engine_failed);
  EXPECT_NE(of(events, 2).error->message.find("not a number"), std::string::npos);
  EXPECT_EQ(of(events, 3).error->code, Code::invalid_value) << "the job's doing";
  EXPECT_NE(of(events, 3).error->message.find("no token is left"), std::string::npos);
}

TEST_F(LoopTest, AStepIsStartedBeforeTheIdsOfTheOneBeforeAreRead) {
  open();
  ASSERT_TRUE(loop_->add(1, request(1, 4, "a b c d", 4)));
  run();
  EXPECT_EQ(runner_.calls, "fsfswfswfsww");
}

// A stop is seen one step late: the row of that step is computed, and its token is dropped.
TEST_F(LoopTest, WhatAnEndedSequenceStillComputesIsDropped) {
  open();
  ASSERT_TRUE(loop_->add(1, request(1, 4, "a b")));
  const auto events = run();
  const Choice& choice = of(events, 1).result.choices.at(0);
  EXPECT_EQ(runner_.banned.size(), choice.tokens.size() + 1);
  EXPECT_EQ(choice.tokens.back(), end_of_text);
  EXPECT_EQ(loop_->counters().generated_tokens, choice.tokens.size());
}

TEST_F(LoopTest, TimesAndCountersAreFilled) {
  open(64, {.max_batch = 1, .step_tokens = 64, .prefill_chunk = 64});
  ASSERT_TRUE(loop_->add(1, request(1, 40, "a b c", 3)));
  ASSERT_TRUE(loop_->add(2, request(2, 40, "a b c", 3)));
  EXPECT_EQ(loop_->counters().waiting, 2u);
  const auto events = run();
  const EngineTimes& first = of(events, 1).result.times;
  const EngineTimes& second = of(events, 2).result.times;
  EXPECT_EQ(first.queue_us, 1000u);
  EXPECT_GT(second.queue_us, first.queue_us);
  EXPECT_GT(first.first_token_us, first.queue_us);
  EXPECT_GT(first.total_us, first.first_token_us);
  const Counters counters = loop_->counters();
  EXPECT_EQ(counters.prompt_tokens, 80u);
  EXPECT_EQ(counters.generated_tokens, 6u);
  EXPECT_EQ(counters.token_gaps.count(), 4u) << "two in each text of three tokens";
  EXPECT_GT(counters.token_gaps.sum(), 0);
  EXPECT_EQ(counters.running + counters.waiting, 0u);
  EXPECT_EQ(counters.kv_pages_used, 0u);
  EXPECT_EQ(counters.kv_pages_total, 64u);
}

TEST_F(LoopTest, APauseCountsNoTokenTwice) {
  open(8, {.max_batch = 4, .step_tokens = 64, .prefill_chunk = 64, .forecast_tokens = 0});
  for (RequestId id = 1; id <= 4; ++id) {
    GenerationRequest asked = request(id, 20, "a b c", 60);
    asked.stops.ignore_eos = true;
    ASSERT_TRUE(loop_->add(id, asked));
  }
  (void)run();
  const Counters counters = loop_->counters();
  EXPECT_GT(counters.pauses, 0u);
  EXPECT_EQ(counters.prompt_tokens, 80u);
  EXPECT_EQ(counters.generated_tokens, 240u);
}

TEST_F(LoopTest, RowsAreThoseOfTheStepUnderWay) {
  open();
  std::vector<Event> events;
  EXPECT_EQ(loop_->counters().last_rows, 0u);
  for (RequestId id = 1; id <= 3; ++id) ASSERT_TRUE(loop_->add(id, request(id, 4, "a b", 2)));
  ASSERT_TRUE(loop_->step(events));
  EXPECT_EQ(loop_->counters().last_rows, 3u);
  EXPECT_EQ(loop_->counters().last_tokens, 12u);
  (void)run();
  EXPECT_EQ(loop_->counters().last_rows, 0u) << "nothing is under way";
  EXPECT_EQ(loop_->counters().last_tokens, 0u);
}

// A job may name the engine's policy in any form that means the same.
TEST_F(LoopTest, APolicyIsKnownByWhatItMeans) {
  open();
  RequestId id = 1;
  for (const char* kv : {"f16", "f16/f16", "f16+none", "f16~2,2", "f16+layer:3", "f16/f16 x30",
                         "f16/f16 x1, f16/f16 x29"}) {
    GenerationRequest r = request(id, 4, "x");
    r.kv = kv;
    EXPECT_TRUE(loop_->add(id++, r)) << kv;
  }
  // The hint can be followed: it does not name a policy by layer, which --kv does not take.
  for (const auto& [kv, hint] : {std::pair{"q8", "started with --kv q8"},
                                 std::pair{"f16/f16 x29", "an engine that runs it"}}) {
    GenerationRequest r = request(id, 4, "x");
    r.kv = kv;
    const Status status = loop_->add(id, r);
    ASSERT_FALSE(status) << kv;
    EXPECT_EQ(status.error().code, Code::unsupported_field) << kv;
    EXPECT_TRUE(status.error().hint.ends_with(hint)) << status.error().hint;
  }
}

}  // namespace
}  // namespace millrace::engine
