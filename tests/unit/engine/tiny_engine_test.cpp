// Properties of an Engine besides its tokens: sizes that do not fit, roles, the template's clock.
#include "tests/unit/engine/tiny_engine.hpp"

#include <map>
#include <set>

#include "tests/golden/engine_fixture.hpp"
#include "tests/support/allocations.hpp"

namespace millrace::engine {
namespace {

TEST_F(TinyEngine, ATokenizerLargerThanTheModelIsRefused) {
  const auto engine = create(257);
  ASSERT_FALSE(engine);
  EXPECT_EQ(engine.error().code, Code::gguf_malformed);
  EXPECT_NE(engine.error().message.find("258 tokens"), std::string::npos);
  EXPECT_NE(engine.error().message.find("257 rows"), std::string::npos);
  EXPECT_NE(engine.error().message.find("tiny.gguf"), std::string::npos);
  EXPECT_FALSE(engine.error().hint.empty());
}

// As many rows in a step as `--max-batch` allows give the tokens of eight at a time.
TEST_F(TinyEngine, AThousandRowsInAStepHaveTheTokensOfFew) {
  constexpr std::uint32_t rows = 1'024;
  const auto run = [&](std::uint32_t max_batch) {
    EngineOptions options = tiny_options();
    options.max_batch = max_batch;
    options.step_tokens = 0;
    options.kv_memory_bytes = 64 * limits::MiB;
    const auto engine = millrace::testing::must(create(tiny_vocabulary, "", options));
    for (std::uint32_t id = 0; id < rows; ++id) {
      GenerationRequest request;
      request.prompt = Tokens{id % 256, id / 4, 7};
      request.max_tokens = 6;
      request.stops.ignore_eos = true;
      request.sampling.seed = id;
      EXPECT_TRUE(engine->add(id, request));
    }
    std::map<RequestId, Tokens> tokens;
    std::vector<Event> events;
    std::uint32_t most_rows = 0;
    while (engine->busy()) {
      EXPECT_TRUE(engine->step(events));
      most_rows = std::max(most_rows, engine->counters().last_rows);
    }
    for (const Event& event : events) tokens[event.id] = event.result.choices.at(0).tokens;
    EXPECT_EQ(tokens.size(), rows);
    EXPECT_EQ(most_rows, max_batch);
    return tokens;
  };
  EXPECT_EQ(run(rows), run(8));
}

// Returns the prompt of a chat as text.
std::string prompt_of(Engine& engine, const Chat& chat) {
  GenerationRequest request;
  request.task = Task::score;
  request.prompt = chat;
  const Status added = engine.add(1, request);
  if (!added) return added.error().text();
  std::vector<Event> events;
  while (engine.busy()) EXPECT_TRUE(engine.step(events));
  return *engine.detokenize(events.at(0).result.prompt.value());
}

TEST_F(TinyEngine, TheTemplateDecidesWhichRolesExist) {
  auto engine = create(tiny_vocabulary,
                       "{% for m in messages %}{% if m.role == 'ipython' %}[py]{% endif %}"
                       "{{ m.content }}<|end|>{% endfor %}");
  ASSERT_TRUE(engine) << engine.error().text();
  EXPECT_EQ(prompt_of(**engine, {{"ipython", "1"}, {"tool", "2"}}), "[py]1<|end|>2<|end|>");
  EXPECT_NE(prompt_of(**engine, {{"user", "1"}, {"wizard", "2"}}).find("messages[1]"),
            std::string::npos);
}

// The context is 1,024 tokens; a chat without max_tokens may use all that is left of it.
TEST_F(TinyEngine, APoolSmallerThanTheContextShowsInTheFingerprint) {
  std::map<std::uint64_t, std::set<std::string>> fingerprints;
  std::map<std::uint64_t, std::size_t> lengths;
  for (const std::uint64_t kib : {128u, 192u, 512u, 1024u}) {
    EngineOptions options = tiny_options();
    options.kv_memory_bytes = kib * limits::KiB;
    auto engine =
        millrace::testing::must(create(tiny_vocabulary, "{{ messages[0].content }}", options));
    const std::uint64_t room = std::min<std::uint64_t>(1024, engine->info().kv_pool_tokens);
    GenerationRequest request;
    request.prompt = Chat{{"user", "Once"}};
    request.sampling.seed = 1;
    request.stops.ignore_eos = true;
    const GenerationResult result = run_one(*engine, request);
    EXPECT_EQ(result.effective.engine.fingerprint, engine->info().profile.facts.fingerprint);
    fingerprints[room].insert(engine->info().profile.facts.fingerprint);
    lengths[room] = result.choices.at(0).tokens.size();
  }
  ASSERT_EQ(fingerprints.size(), 3u);
  std::set<std::string> all;
  for (const auto& [room, of_room] : fingerprints) {
    EXPECT_EQ(of_room.size(), 1u) << room;
    all.insert(of_room.begin(), of_room.end());
    EXPECT_NEAR(static_cast<double>(lengths[room]), static_cast<double>(room - 4), 1.0);
  }
  EXPECT_EQ(all.size(), 3u);
}

// The second layer's keys have outliers if its biases are large (fidelity/measure_test.cpp). Then
// protection changes the policy, and a job that wants none needs another engine.
TEST_F(TinyEngine, AnswersToItsPolicyUnprotectedWhereNothingWasProtected) {
  EngineOptions options = tiny_options();
  options.kv = "r4/f16";
  for (const float size : {1.0f, 20.0f}) {
    model_ = {.architecture = "qwen2",
              .width = 128,
              .heads = 2,
              .kv_heads = 1,
              .scales = {{"blk.1.attn_k.bias", size}}};
    auto engine = millrace::testing::must(create(tiny_vocabulary, "", options));
    std::vector<std::string> names{"r4/f16", "r4/f16 x2", "r4/f16+none"};
    if (size > 1) names = {"r4/f16", "r4/f16 x1, r8/f16 x1"};
    EXPECT_EQ(engine->info().profile.kv_policies, names);
    GenerationRequest request;
    request.prompt = Tokens{1};
    request.max_tokens = 1;
    request.sampling.seed = 1;
    request.kv = "r4/f16+none";
    const Status added = engine->add(1, request);
    EXPECT_EQ(added.has_value(), size == 1) << size;
    EXPECT_EQ(added ? Code::unsupported_field : added.error().code, Code::unsupported_field);
  }
}

TEST_F(TinyEngine, StoresFloatsAndSaysSoInItsResults) {
  EngineOptions options = tiny_options();
  options.kv = "f32";
  auto engine = millrace::testing::must(create(tiny_vocabulary, "", options));
  EXPECT_EQ(engine->info().profile.kv_policies, (std::vector<std::string>{"f32", "f32/f32 x2"}));
  GenerationRequest request;
  request.prompt = Tokens{1};
  request.max_tokens = 1;
  request.sampling.seed = 1;
  request.kv = "f32/f32";
  const auto used = run_one(*engine, request).effective.engine;
  EXPECT_EQ(used.kv_policy, "f32");
  EXPECT_EQ(used.kv, "f32/f32 x2");
  EXPECT_EQ(used.kv_compression, 0.5);
  request.kv = "f16";
  const Status added = engine->add(1, request);
  ASSERT_FALSE(added);
  EXPECT_EQ(added.error().code, Code::unsupported_field);
}

TEST_F(TinyEngine, TheTemplatesClockStandsStill) {
  auto engine = create(tiny_vocabulary, "{{ strftime_now('%d %b %Y') }} {{ messages[0].content }}");
  ASSERT_TRUE(engine) << engine.error().text();
  EXPECT_EQ(prompt_of(**engine, {{"user", "x"}}), "26 Jul 2024 x");
}

// Counts the allocations of 128 steps in which each of `rows` requests draws a token.
std::size_t allocations_while_drawing(Engine& engine, std::uint32_t rows) {
  GenerationRequest request;
  request.prompt = "text";
  request.max_tokens = 160;
  request.sampling.seed = 5;
  request.stops.ignore_eos = true;
  for (RequestId id = 0; id < rows; ++id) EXPECT_TRUE(engine.add(id, request));
  std::vector<Event> events;
  for (int i = 0; i < 16; ++i) EXPECT_TRUE(engine.step(events));
  EXPECT_EQ(engine.counters().last_rows, rows);
  const std::size_t before = allocations();
  for (int i = 0; i < 128; ++i) EXPECT_TRUE(engine.step(events));
  const std::size_t made = allocations() - before;
  EXPECT_EQ(engine.counters().last_rows, rows);
  while (engine.busy()) EXPECT_TRUE(engine.step(events));
  return made;
}

TEST_F(TinyEngine, ATokenCostsNoAllocation) {
  auto engine = create(tiny_vocabulary);
  ASSERT_TRUE(engine) << engine.error().text();
  allocations_while_drawing(**engine, 8);  // buffers grow to their size
  const std::size_t one = allocations_while_drawing(**engine, 1);
  const std::size_t eight = allocations_while_drawing(**engine, 8);
  // Tokens and text grow by doubling, page tables by a page: a few times in 128 steps.
  EXPECT_LE(eight - one, 7 * 16);
}

// Its size alone shows that it does not fit, so no work grows with it.
TEST_F(TinyEngine, AHugePromptIsRefusedAtOnce) {
  auto engine = create(tiny_vocabulary);
  ASSERT_TRUE(engine) << engine.error().text();
  GenerationRequest request;
  request.sampling.seed = 5;
  const auto refusing = [&](std::size_t bytes) {
    request.prompt = std::string(bytes, 'a');
    const std::size_t before = allocations();
    const auto prepared = (*engine)->prepare(request);
    const std::size_t made = allocations() - before;
    EXPECT_EQ(prepared.error().code, Code::context_exceeded);
    return made;
  };
  EXPECT_EQ(refusing(120'000'000), refusing(100'000));
}

// Draws run ahead of the host, beside rows without edits.
TEST_F(TinyEngine, EditsHoldForEveryTokenOfARunningBatch) {
  auto engine = create(tiny_vocabulary);
  ASSERT_TRUE(engine) << engine.error().text();
  GenerationRequest plain;
  plain.prompt = "some text";
  plain.max_tokens = 60;
  plain.sampling.seed = 5;
  plain.stops.ignore_eos = true;
  GenerationRequest distinct = plain, allowed = plain, banned = plain, biased = plain;
  distinct.edits.no_repeat_ngram = 1;
  for (TokenId id = 40; id < 50; ++id) allowed.edits.allowed.push_back(id);
  banned.edits.allowed = {41, 42, 43};
  banned.edits.bad_word_ids = {{41, 41}, {42}, {43, 43, 43}};
  biased.edits.bias = {{77, 100.0f}};
  biased.logprobs.sampled = true;
  biased.logprobs.listed = {77, 5};
  RequestId id = 0;
  for (const auto* request : {&plain, &distinct, &allowed, &banned, &biased}) {
    ASSERT_TRUE((*engine)->add(id++, *request));
  }
  std::vector<Event> events;
  while ((*engine)->busy()) ASSERT_TRUE((*engine)->step(events));
  ASSERT_EQ(events.size(), 5u);
  std::map<RequestId, GenerationResult> results;
  for (Event& event : events) {
    ASSERT_FALSE(event.error) << event.error->text();
    results[event.id] = std::move(event.result);
  }
  const auto tokens = [&](RequestId r) { return results.at(r).choices[0].tokens; };
  for (RequestId r = 0; r < 5; ++r) EXPECT_EQ(tokens(r).size(), 60u);
  const Tokens once = tokens(1);
  EXPECT_EQ(std::set<TokenId>(once.begin(), once.end()).size(), 60u);
  for (const TokenId token : tokens(2)) EXPECT_TRUE(token >= 40 && token < 50) << token;
  int run_of_43 = 0;
  TokenId before = 0;
  for (const TokenId token : tokens(3)) {
    EXPECT_TRUE(token == 41 || token == 43) << token;
    EXPECT_FALSE(token == 41 && before == 41);
    EXPECT_LT(run_of_43 = token == 43 ? run_of_43 + 1 : 0, 3);
    before = token;
  }
  EXPECT_EQ(tokens(4), Tokens(60, 77));
  const TokenLogprobs& logprobs = *results.at(4).choices[0].logprobs;
  ASSERT_EQ(logprobs.listed->logprobs.size(), 120u);
  for (std::size_t i = 0; i < 60; ++i) {
    EXPECT_EQ(logprobs.listed->logprobs[2 * i], logprobs.token[i]);
    EXPECT_LT(logprobs.token[i], -0.5f);  // the model's own, not the biased one
  }
  EXPECT_EQ(results.at(0).effective.edits, LogitEdits());
  EXPECT_EQ(results.at(1).effective.edits.no_repeat_ngram, 1u);
}

// Penalties and logprobs need no additional kernel: the same ones are enqueued with and without
// them.
TEST_F(TinyEngine, WhateverIsAskedOfTheSamplerTheSameKernelsAreEnqueued) {
  auto engine = create(tiny_vocabulary);
  ASSERT_TRUE(engine) << engine.error().text();
  GenerationRequest plain;
  plain.prompt = "some text";
  plain.max_tokens = 30;
  plain.sampling.seed = 5;
  plain.sampling.temperature = 0;
  plain.stops.ignore_eos = true;
  GenerationRequest penalized = plain, with_logprobs = plain, sampled = plain;
  penalized.edits.repetition = {1.3f, PenaltyScope::all, 0};
  penalized.edits.presence = penalized.edits.frequency = {0.5f, PenaltyScope::output, 0};
  penalized.edits.dry.multiplier = 0.8f;
  with_logprobs.logprobs.sampled = true;
  with_logprobs.logprobs.top = 5;
  sampled.sampling.temperature = 1;
  sampled.sampling.top_k = 20;
  std::set<std::uint64_t> launches, steps;
  for (const auto* request : {&plain, &penalized, &with_logprobs, &sampled, &plain}) {
    const Counters before = (*engine)->counters();
    for (RequestId id = 0; id < 8; ++id) ASSERT_TRUE((*engine)->add(id, *request));
    std::vector<Event> events;
    while ((*engine)->busy()) ASSERT_TRUE((*engine)->step(events));
    launches.insert((*engine)->counters().launches - before.launches);
    steps.insert((*engine)->counters().steps - before.steps);
  }
  EXPECT_EQ(launches.size(), 1u);
  EXPECT_EQ(steps.size(), 1u);
}

TEST_F(TinyEngine, ARequestWithNothingLeftToDrawFailsAlone) {
  auto engine = create(tiny_vocabulary);
  ASSERT_TRUE(engine) << engine.error().text();
  GenerationRequest fine;
  fine.prompt = "some text";
  fine.max_tokens = 8;
  fine.sampling.seed = 1;
  fine.stops.ignore_eos = true;
  GenerationRequest stuck = fine;
  stuck.edits.allowed = {40, 41};
  stuck.edits.no_repeat_ngram = 1;
  ASSERT_TRUE((*engine)->add(1, fine));
  ASSERT_TRUE((*engine)->add(2, stuck));
  std::vector<Event> events;
  while ((*engine)->busy()) ASSERT_TRUE((*engine)->step(events));
  ASSERT_EQ(events.size(), 2u);
  for (const Event& event : events) {
    ASSERT_EQ(event.error.has_value(), event.id == 2);
    if (event.error) {
      EXPECT_NE(event.error->message.find("no token is left"), std::string::npos);
      EXPECT_NE(event.error->hint.find("no_repeat_ngram_size"), std::string::npos);
    } else {
      EXPECT_EQ(event.result.choices[0].tokens.size(), 8u);
    }
  }
}

TEST_F(TinyEngine, RowsWithoutATokenAreNeverDrawn) {
  auto engine = create(4000);
  ASSERT_TRUE(engine) << engine.error().text();
  EXPECT_EQ((*engine)->info().vocabulary, 258u);
  for (RequestId id = 0; id < 8; ++id) {
    GenerationRequest request;
    request.prompt = "some text";
    request.max_tokens = 40;
    request.sampling.seed = id;
    request.stops.ignore_eos = true;
    request.logprobs.sampled = true;
    request.logprobs.top = 20;
    ASSERT_TRUE((*engine)->add(id, request));
  }
  std::vector<Event> events;
  while ((*engine)->busy()) ASSERT_TRUE((*engine)->step(events));
  ASSERT_EQ(events.size(), 8u);
  for (const Event& event : events) {
    ASSERT_FALSE(event.error) << event.error->text();
    const Choice& choice = event.result.choices.at(0);
    EXPECT_EQ(choice.tokens.size(), 40u);
    for (const TokenId id : choice.tokens) EXPECT_LT(id, 258u);
    for (const TokenId id : choice.logprobs->top_ids) EXPECT_LT(id, 258u);
  }
}

}  // namespace
}  // namespace millrace::engine
