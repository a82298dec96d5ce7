// Markers that split a text into parts, and loops that end it.
#include <gtest/gtest.h>

#include <random>

#include "engine/core/stop/stop_machine.hpp"

namespace millrace::engine {
namespace {

StopMachine with_markers(std::vector<Marker> markers, std::vector<std::string> strings = {},
                         std::int32_t inside = -1) {
  Stops stops;
  stops.strings = std::move(strings);
  auto rules = std::make_shared<StopRules>(stops, Tokens{2}, 0, 999);
  rules->parts = std::make_shared<const PartRules>(std::move(markers), inside);
  return StopMachine(std::move(rules));
}

const std::vector<Marker> think_and_call = {
    {MarkedPart::reasoning, "<think>", "</think>"},
    {MarkedPart::tool_call, "<tool_call>", "</tool_call>"},
    {MarkedPart::tool_call, "[CALLS]", ""},
};

void feed(StopMachine& m, std::string_view text, std::size_t piece) {
  for (std::size_t at = 0; at < text.size(); at += piece) {
    EXPECT_EQ(m.push(5, text.substr(at, piece)), std::nullopt);
  }
}

TEST(Markers, PartsStandApartHoweverTheTextIsCut) {
  const std::string text =
      "<think>why? <b>so</think>Hello <tool_call>{1}</tool_call><tool_call>{2}</tool_call>!"
      "[CALLS]f(<think>)";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    StopMachine m = with_markers(think_and_call);
    feed(m, text, piece);
    m.close("");
    EXPECT_EQ(m.text(), "Hello !") << piece;
    EXPECT_EQ(m.parts()->reasoning(), "why? <b>so") << piece;
    EXPECT_EQ(m.parts()->tool_calls(), (std::vector<std::string>{"{1}", "{2}", "f(<think>)"}));
  }
}

TEST(Markers, ReasoningMayBeFollowedByAToolCallAtOnce) {
  StopMachine m = with_markers(think_and_call);
  feed(m, "<think>a</think><tool_call>b", 3);
  m.close("");
  EXPECT_EQ(m.parts()->reasoning(), "a");
  EXPECT_EQ(m.parts()->tool_calls(), (std::vector<std::string>{"b"}));
  EXPECT_EQ(m.text(), "");
}

TEST(Markers, APartialMarkerIsHeldBackAndFlushedAtTheEnd) {
  StopMachine m = with_markers(think_and_call);
  feed(m, "see <tool_c", 4);
  EXPECT_EQ(m.text(), "see ");
  m.close("");
  EXPECT_EQ(m.text(), "see <tool_c");
  EXPECT_FALSE(m.parts()->reasoning());
  EXPECT_TRUE(m.parts()->tool_calls().empty());
  StopMachine inner = with_markers(think_and_call);
  feed(inner, "<think>x</thi", 4);
  EXPECT_EQ(inner.parts()->reasoning(), "x");
  inner.close("");
  EXPECT_EQ(inner.parts()->reasoning(), "x</thi");
}

TEST(Markers, StopStringsAreStrippedInsideParts) {
  StopMachine m = with_markers(think_and_call, {"STOP"});
  feed(m, "a<think>b S", 2);
  EXPECT_EQ(m.push(5, "TOP c"), FinishReason::stop);
  m.close("");
  EXPECT_EQ(m.text(), "a");
  EXPECT_EQ(m.parts()->reasoning(), "b ");
}

TEST(Markers, ThePromptMayLeaveAPartOpen) {
  EXPECT_EQ(open_marker_at_end(think_and_call, "user\nassistant <think>\n\n"), 0);
  EXPECT_EQ(open_marker_at_end(think_and_call, "[CALLS]"), 2);
  EXPECT_EQ(open_marker_at_end(think_and_call, "<think> no"), -1);
  EXPECT_EQ(open_marker_at_end(think_and_call, " \n"), -1);
  StopMachine m = with_markers(think_and_call, {}, 0);
  feed(m, "it is</think>Yes", 5);
  m.close("");
  EXPECT_EQ(m.parts()->reasoning(), "it is");
  EXPECT_EQ(m.text(), "Yes");
}

TEST(Markers, AtTheStartCountOnlyBeforeTheAnswer) {
  std::vector<Marker> markers = think_and_call;
  markers[0].at_start = true;
  const std::string text = " \n<think>a</think>\n<think>b</think>The <think>tag</think>. <think>";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    StopMachine m = with_markers(markers);
    feed(m, text, piece);
    m.close("");
    EXPECT_EQ(m.parts()->reasoning(), "ab") << piece;
    EXPECT_EQ(m.text(), " \n\nThe <think>tag</think>. <think>") << piece;
  }
  StopMachine calling = with_markers(markers);
  feed(calling, "<tool_call>f</tool_call><think>a</think>Yes<tool_call>g", 3);
  calling.close("");
  EXPECT_EQ(calling.parts()->reasoning(), "a");
  EXPECT_EQ(calling.parts()->tool_calls().size(), 2u);
}

// A token belongs to the part that holds its first byte.
TEST(Markers, TellWhichTokensBelongToWhichPart) {
  const auto spans = [](const std::vector<std::string>& pieces, std::int32_t inside = -1) {
    StopMachine m = with_markers(think_and_call, {}, inside);
    for (const std::string& piece : pieces) m.push(5, piece);
    m.push(2, "");  // end of text
    m.close("");
    return std::pair(m.token_spans(MarkedPart::reasoning), m.token_spans(MarkedPart::tool_call));
  };
  using Spans = std::pair<std::optional<Tokens>, std::optional<Tokens>>;
  EXPECT_EQ(spans({"a", "b"}), Spans());
  EXPECT_EQ(spans({"<think>", "a", "b", "</think>", "c", "<tool_call>", "d", "</tool_call>", "e"}),
            Spans(Tokens{0, 4}, Tokens{5, 8}));
  EXPECT_EQ(spans({"x<thi", "nk>a</", "think>b", "c"}), Spans(Tokens{1, 3}, std::nullopt));
  EXPECT_EQ(spans({"a", "", "</think>", "", "b"}, 0), Spans(Tokens{0, 3}, std::nullopt));
  EXPECT_EQ(spans({"<think>", "a"}), Spans(Tokens{0, 3}, std::nullopt));  // never closed
  EXPECT_EQ(spans({"[CALLS]", "f", "[CALLS]"}), Spans(std::nullopt, Tokens{0, 4}));
  EXPECT_EQ(spans({"x<think></think>", "y"}), Spans(Tokens{}, std::nullopt));
}

// The reason that ends the tokens, and their number by then.
std::pair<std::optional<FinishReason>, std::size_t> looped(const Tokens& tokens,
                                                           RepetitionDetection detection,
                                                           std::uint32_t minimum = 0,
                                                           std::uint32_t maximum = 99) {
  auto rules = std::make_shared<StopRules>(Stops(), Tokens{2}, minimum, maximum);
  rules->repetition = detection;
  StopMachine m(std::move(rules));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (const auto reason = m.push(tokens[i], "x")) return {reason, i + 1};
  }
  return {std::nullopt, tokens.size()};
}

TEST(Repetition, EndsALoopAsSoonAsItIsOne) {
  const auto loop = FinishReason::repetition;
  const Tokens abc = {9, 5, 6, 7, 5, 6, 7, 5, 6, 7, 5, 6, 7};
  EXPECT_EQ(looped(abc, {3, 1, 3}), (std::pair{std::optional(loop), std::size_t{10}}));
  EXPECT_EQ(looped(abc, {3, 1, 2}).second, 7u);
  EXPECT_EQ(looped(abc, {2, 1, 2}).first, std::nullopt);  // the pattern is longer than 2
  EXPECT_EQ(looped(abc, {}).first, std::nullopt);
  EXPECT_EQ(looped({5, 5, 5, 5, 5, 5}, {3, 2, 3}).second, 6u);  // "5 5", three times
  EXPECT_EQ(looped({5, 5, 5, 5}, {1, 1, 3}, 4).second, 4u);     // not before min_tokens
  EXPECT_EQ(looped({5, 5}, {1, 1, 2}, 0, 2).first, FinishReason::length);
}

TEST(Repetition, EqualsThePlainDefinition) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    RepetitionDetection d;
    const auto from = [&](std::uint32_t least, std::uint32_t count) {
      return least + static_cast<std::uint32_t>(random() % count);
    };
    d.max_pattern_size = from(1, 5);
    d.min_pattern_size = from(1, d.max_pattern_size);
    d.min_count = from(2, 3);
    Tokens tokens(from(1, 30));
    for (TokenId& id : tokens) id = from(5, 2);
    std::size_t expected = tokens.size();
    bool found = false;
    for (std::size_t end = 1; end <= tokens.size() && !found; ++end) {
      for (std::size_t size = d.min_pattern_size; size <= d.max_pattern_size; ++size) {
        if (end < size * d.min_count) continue;
        bool same = true;
        for (std::size_t i = end - size * (d.min_count - 1); i < end; ++i) {
          same = same && tokens[i] == tokens[i - size];
        }
        if (!std::exchange(found, found || same) && same) expected = end;
      }
    }
    const auto [reason, count] = looped(tokens, d);
    ASSERT_EQ(reason.has_value(), found);
    ASSERT_EQ(count, expected);
  }
}

}  // namespace
}  // namespace millrace::engine
