// The markers that a model is known to write, found in its vocabulary and its chat template.
#include "engine/core/request/markers.hpp"

#include <gtest/gtest.h>

#include "tests/unit/tokenizer/support.hpp"

namespace millrace::engine {
namespace {

constexpr std::int32_t control = 3, user_defined = 4;
const Marker think = {MarkedPart::reasoning, "<think>", "</think>", true};
const Marker call = {MarkedPart::tool_call, "<tool_call>", "</tool_call>"};

StopRules added(std::vector<Marker> markers, std::string_view prompt, const Tokenizer& tokenizer) {
  TokenizeOptions options;
  options.parse_special = true;
  StopRules rules({}, {}, 0, 9);
  add_markers(std::move(markers), tokenizer.tokenize(prompt, options), tokenizer, rules);
  return rules;
}

TEST(KnownMarkers, AreThoseThatTheVocabularyHoldsAsOneToken) {
  millrace::testing::TestVocabulary v;
  EXPECT_TRUE(known_markers(millrace::testing::load_good(v.builder()), "").empty());
  v.add("<think>", user_defined);
  v.add("</think>", user_defined);
  const TokenId calls = v.add("[TOOL_CALLS]", control);
  v.add("<|tool_call|>", user_defined);  // without a closing: the part reaches to the end
  const Tokenizer tokenizer = millrace::testing::load_good(v.builder());
  const std::vector<Marker> expected = {think,
                                        {MarkedPart::tool_call, "[TOOL_CALLS]", ""},
                                        {MarkedPart::tool_call, "<|tool_call|>", ""}};
  const std::vector<Marker> known = known_markers(tokenizer, "");
  EXPECT_EQ(known, expected);
  // The others have a text of their own.
  EXPECT_EQ(added(known, "Is it?", tokenizer).marker_ids, Tokens{calls});
  EXPECT_EQ(added(known, "Is it?", tokenizer).parts->markers(), expected);
  EXPECT_EQ(added(known, "Is it?", tokenizer).parts->inside(), -1);
  EXPECT_EQ(added(known, "Is it? <think>\n\n", tokenizer).parts->inside(), 0);
  EXPECT_EQ(added(known, "Is it? <think></think>", tokenizer).parts->inside(), -1);
  EXPECT_EQ(added({}, "Is it? <think>", tokenizer).parts, nullptr);
}

TEST(KnownMarkers, AreAlsoThoseThatTheTemplateWrites) {
  const Tokenizer tokenizer =
      millrace::testing::load_good(millrace::testing::TestVocabulary().builder());
  const std::string_view chat = "{{ '<|assistant|>\\n<think>' }}{# until </think> #}";
  EXPECT_EQ(known_markers(tokenizer, chat), std::vector<Marker>{think});
  EXPECT_EQ(known_markers(tokenizer, "<think>"),
            (std::vector<Marker>{{MarkedPart::reasoning, "<think>", "", true}}));
  // The letters are ordinary tokens, and yet the prompt leaves the reasoning open.
  const StopRules rules = added({think}, "<|assistant|>\n<think>\n", tokenizer);
  EXPECT_EQ(rules.parts->inside(), 0);
  EXPECT_TRUE(rules.marker_ids.empty());
}

TEST(KnownMarkers, OfHarmonyNeedItsFourTokens) {
  millrace::testing::TestVocabulary v;
  Tokens ids;
  for (const char* token : {"<|start|>", "<|channel|>", "<|end|>"}) ids.push_back(v.add(token, 3));
  EXPECT_TRUE(known_markers(millrace::testing::load_good(v.builder()), "<|message|>").empty());
  ids.push_back(v.add("<|message|>", control));
  ids.push_back(v.add("<|constrain|>", control));
  const Tokenizer tokenizer = millrace::testing::load_good(v.builder());
  const std::vector<Marker> known = known_markers(tokenizer, "");
  EXPECT_EQ(known, (std::vector<Marker>{{MarkedPart::channel, "<|start|>", "<|message|>"},
                                        {MarkedPart::channel, "<|channel|>", "<|message|>"},
                                        {MarkedPart::channel, "<|end|>", "<|message|>"}}));
  const StopRules rules = added(known, "Hi<|end|><|start|>assistant", tokenizer);
  EXPECT_EQ(rules.parts->inside(), 0);  // the header goes on in the text
  for (const TokenId id : ids) EXPECT_TRUE(rules.is_marker(id)) << id;
  EXPECT_EQ(added(known, "<|channel|>final<|message|>", tokenizer).parts->inside(), -1);
}

TEST(KnownMarkers, OfSeveralTokensCountByTheirSpecialOnes) {
  millrace::testing::TestVocabulary v;
  const TokenId open = v.add("<|channel>", control), close = v.add("<channel|>", control);
  const Tokenizer tokenizer = millrace::testing::load_good(v.builder());
  const std::vector<Marker> known = known_markers(tokenizer, "");
  EXPECT_EQ(
      known,
      (std::vector<Marker>{{MarkedPart::reasoning, "<|channel>thought\n", "<channel|>", true}}));
  EXPECT_EQ(added(known, "x", tokenizer).marker_ids, (Tokens{open, close}));
}

TEST(WantedMarkers, AreTheRequestsOwnOrThoseItAsksFor) {
  const std::vector<Marker> channels = {{MarkedPart::channel, "<|start|>", "<|message|>"}};
  const std::vector<Marker> known = {think, call, channels[0]};
  GenerationRequest chat;
  chat.prompt = Chat{{"user", "Hi"}};
  EXPECT_EQ(wanted_markers(chat, known), (std::vector<Marker>{think, channels[0]}));
  chat.markers.known = KnownMarkers::none;
  EXPECT_TRUE(wanted_markers(chat, known).empty());
  chat.markers.known = KnownMarkers::all;
  EXPECT_EQ(wanted_markers(chat, known), known);
  GenerationRequest text;
  for (const Prompt& prompt : {Prompt(std::string("Hi")), Prompt(Tokens{1})}) {
    text.prompt = prompt;
    text.markers = {};
    EXPECT_TRUE(wanted_markers(text, known).empty());
    text.markers.known = KnownMarkers::reasoning;
    EXPECT_EQ(wanted_markers(text, known), (std::vector<Marker>{think, channels[0]}));
  }
  chat.markers = {{}, {call}};
  EXPECT_EQ(wanted_markers(chat, known), std::vector<Marker>{call});
}

}  // namespace
}  // namespace millrace::engine
