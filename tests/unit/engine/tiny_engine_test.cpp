// What Engine promises around a model: sizes that do not fit, roles, the template's clock.
#include "tests/unit/engine/tiny_engine.hpp"

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

// The prompt that a chat becomes, as text.
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

TEST_F(TinyEngine, RolesAreTheTemplatesAffair) {
  auto engine = create(tiny_vocabulary,
                       "{% for m in messages %}{% if m.role == 'ipython' %}[py]{% endif %}"
                       "{{ m.content }}<|end|>{% endfor %}");
  ASSERT_TRUE(engine) << engine.error().text();
  EXPECT_EQ(prompt_of(**engine, {{"ipython", "1"}, {"tool", "2"}}), "[py]1<|end|>2<|end|>");
  EXPECT_NE(prompt_of(**engine, {{"user", "1"}, {"wizard", "2"}}).find("messages[1]"),
            std::string::npos);
}

TEST_F(TinyEngine, TheTemplatesClockStandsStill) {
  auto engine = create(tiny_vocabulary, "{{ strftime_now('%d %b %Y') }} {{ messages[0].content }}");
  ASSERT_TRUE(engine) << engine.error().text();
  EXPECT_EQ(prompt_of(**engine, {{"user", "x"}}), "26 Jul 2024 x");
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
