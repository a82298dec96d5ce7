#include <gtest/gtest.h>

#include <random>

#include "engine/core/stop/stop_machine.hpp"

namespace millrace::engine {
namespace {

TextStop text_stop(std::vector<std::string> strings) {
  return TextStop(std::make_shared<const TextPatterns>(std::move(strings)));
}

TEST(TextStop, HoldsBackWhatMayBecomeAStopString) {
  TextStop t = text_stop({"END"});
  EXPECT_FALSE(t.push("the E", true));
  EXPECT_EQ(t.text(), "the ");
  EXPECT_EQ(t.held(), "E");
  EXPECT_FALSE(t.push("N", true));
  EXPECT_EQ(t.text(), "the ");
  EXPECT_FALSE(t.push("EM", true));  // no part of "ENEM" can become END
  EXPECT_EQ(t.text(), "the ENEM");
  EXPECT_EQ(t.push("xENDtail", true), "END");
  EXPECT_EQ(t.text(), "the ENEMx");
  EXPECT_EQ(t.held(), "");
}

TEST(TextStop, FlushGivesTheHeldPartBack) {
  TextStop t = text_stop({"\n\nUser:"});
  EXPECT_FALSE(t.push("hello\n\nUs", true));
  EXPECT_EQ(t.text(), "hello");
  t.flush();
  EXPECT_EQ(t.text(), "hello\n\nUs");
}

TEST(TextStop, TheFirstCompletedWinsAndOfThoseTheLongest) {
  TextStop a = text_stop({"bc", "abcd"});
  EXPECT_EQ(a.push("xabcd", true), "bc");
  EXPECT_EQ(a.text(), "xa");
  TextStop b = text_stop({"c", "abc"});
  EXPECT_EQ(b.push("xabc", true), "abc");
  EXPECT_EQ(b.text(), "x");
}

TEST(TextStop, OverlapsFollowFailureLinks) {
  TextStop t = text_stop({"aab"});
  EXPECT_EQ(t.push("aaab", true), "aab");
  EXPECT_EQ(t.text(), "a");
  TextStop u = text_stop({"abab", "bac"});
  EXPECT_EQ(u.push("ababac", false), std::nullopt);
  TextStop v = text_stop({"abax", "bac"});
  EXPECT_EQ(v.push("abac", true), "bac");
  EXPECT_EQ(v.text(), "a");
}

// Compares with the plain definition, over random texts cut at random places.
TEST(TextStop, EqualsSearchForEveryCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> strings(1 + random() % 3);
    for (auto& s : strings)
      for (std::size_t i = 0, n = 1 + random() % 4; i < n; ++i)
        s += static_cast<char>('a' + random() % 2);
    std::string text;
    for (std::size_t i = 0, n = random() % 20; i < n; ++i)
      text += static_cast<char>('a' + random() % 3);
    std::size_t end = std::string::npos, length = 0;
    for (const auto& s : strings) {
      const std::size_t at = text.find(s);
      if (at == std::string::npos) continue;
      if (at + s.size() < end || (at + s.size() == end && s.size() > length)) {
        end = at + s.size();
        length = s.size();
      }
    }
    TextStop t = text_stop(strings);
    std::optional<std::string> found;
    for (std::size_t at = 0; at < text.size() && !found;) {
      const std::size_t n = 1 + random() % 5;
      found = t.push(std::string_view(text).substr(at, n), true);
      at += n;
    }
    if (!found) t.flush();
    ASSERT_EQ(found.has_value(), end != std::string::npos) << text;
    ASSERT_EQ(t.text(), found ? text.substr(0, end - length) : text);
  }
}

StopMachine machine(const Stops& stops, std::uint32_t minimum, std::uint32_t maximum) {
  return StopMachine(std::make_shared<const StopRules>(stops, Tokens{2}, minimum, maximum));
}

TEST(StopMachine, EndOfTextStops) {
  StopMachine m = machine({}, 0, 9);
  EXPECT_EQ(m.push(5, "hi"), std::nullopt);
  EXPECT_EQ(m.push(2, ""), FinishReason::stop);
  EXPECT_EQ(m.stop_token(), 2u);
  EXPECT_FALSE(m.close(""));
  EXPECT_EQ(m.text(), "hi");
}

TEST(StopMachine, IgnoreEosLetsItPassButNotTheRequestsIds) {
  Stops stops;
  stops.ignore_eos = true;
  stops.token_ids = {7};
  StopMachine m = machine(stops, 0, 9);
  EXPECT_EQ(m.push(2, ""), std::nullopt);
  EXPECT_EQ(m.push(7, ""), FinishReason::stop);
  EXPECT_EQ(m.stop_token(), 7u);
}

TEST(StopMachine, StopWinsOverLengthOnTheSameToken) {
  Stops stops;
  stops.strings = {"!"};
  StopMachine by_string = machine(stops, 0, 2);
  EXPECT_EQ(by_string.push(5, "a"), std::nullopt);
  EXPECT_EQ(by_string.push(6, "b!"), FinishReason::stop);
  EXPECT_EQ(by_string.text(), "ab");
  StopMachine by_token = machine(stops, 0, 1);
  EXPECT_EQ(by_token.push(2, ""), FinishReason::stop);
  StopMachine by_length = machine(stops, 0, 1);
  EXPECT_EQ(by_length.push(5, "a"), FinishReason::length);
}

TEST(StopMachine, MinTokensBansAndLetsEarlyStringsThrough) {
  Stops stops;
  stops.strings = {"x"};
  const auto rules = std::make_shared<const StopRules>(stops, Tokens{2}, 2u, 9u);
  EXPECT_TRUE(rules->bans_stop_tokens(1));
  EXPECT_FALSE(rules->bans_stop_tokens(2));
  StopMachine m(rules);
  EXPECT_EQ(m.push(5, "x"), std::nullopt);
  EXPECT_EQ(m.push(5, "y"), std::nullopt);
  EXPECT_EQ(m.push(5, "x"), FinishReason::stop);
  EXPECT_EQ(m.text(), "xy");
}

TEST(StopMachine, TheTailCountsAsText) {
  Stops stops;
  stops.strings = {"\xEF\xBF\xBD", "ab"};
  StopMachine m = machine(stops, 0, 1);
  EXPECT_EQ(m.push(5, "a"), FinishReason::length);
  StopMachine other = m;
  EXPECT_FALSE(m.close("c"));
  EXPECT_EQ(m.text(), "ac");
  EXPECT_TRUE(other.close("b"));
  EXPECT_EQ(other.text(), "");
  EXPECT_EQ(other.stop_string(), "ab");
}

TEST(StopMachine, HeldTextBelongsToTheTextWhenATokenStops) {
  Stops stops;
  stops.strings = {"abc"};
  StopMachine m = machine(stops, 0, 9);
  EXPECT_EQ(m.push(5, "ab"), std::nullopt);
  EXPECT_EQ(m.push(2, ""), FinishReason::stop);
  EXPECT_FALSE(m.close("c"));
  EXPECT_EQ(m.text(), "abc");
  EXPECT_FALSE(m.stop_string().has_value());
}

TEST(StopMachine, IncludeLeavesWhatStoppedInTheText) {
  Stops stops;
  stops.strings = {"END"};
  stops.token_ids = {7};
  stops.include = true;
  StopMachine by_string = machine(stops, 0, 9);
  EXPECT_EQ(by_string.push(5, "a"), std::nullopt);
  EXPECT_EQ(by_string.push(6, "bENDc"), FinishReason::stop);
  by_string.close("x");
  EXPECT_EQ(by_string.text(), "abEND");
  const StopRules rules(stops, Tokens{2}, 0, 9);
  EXPECT_FALSE(rules.drops_text(7));  // the job's own token; an end of text has no text
  EXPECT_TRUE(rules.drops_text(2));
  StopMachine by_token = machine(stops, 0, 9);
  EXPECT_EQ(by_token.push(7, "seven"), FinishReason::stop);
  by_token.close("");
  EXPECT_EQ(by_token.text(), "seven");
}

StopMachine with_sequences(std::vector<Tokens> sequences, std::uint32_t minimum = 0,
                           bool include = false) {
  Stops stops;
  stops.sequences = std::move(sequences);
  stops.include = include;
  return machine(stops, minimum, 99);
}

TEST(StopSequences, TheirOwnTextIsHeldBackAndCutOff) {
  StopMachine m = with_sequences({{5, 6, 7}});
  EXPECT_EQ(m.push(4, "four "), std::nullopt);
  EXPECT_EQ(m.push(5, "five "), std::nullopt);
  EXPECT_EQ(m.text(), "four ");
  EXPECT_EQ(m.push(6, "six "), std::nullopt);
  EXPECT_EQ(m.push(5, "five "), std::nullopt);  // begins again: the token before is text
  EXPECT_EQ(m.text(), "four five six ");
  EXPECT_EQ(m.push(6, "six "), std::nullopt);
  EXPECT_EQ(m.push(7, "seven"), FinishReason::stop);
  EXPECT_FALSE(m.close("\xEF\xBF\xBD"));
  EXPECT_EQ(m.text(), "four five six ");
  EXPECT_EQ(m.stop_sequence(), (Tokens{5, 6, 7}));
}

TEST(StopSequences, AFlushGivesTheHeldTextBack) {
  StopMachine m = with_sequences({{5, 6, 7}});
  EXPECT_EQ(m.push(5, "five "), std::nullopt);
  EXPECT_EQ(m.push(6, "six"), std::nullopt);
  EXPECT_EQ(m.text(), "");
  EXPECT_FALSE(m.close(""));
  EXPECT_EQ(m.text(), "five six");
}

TEST(StopSequences, OneTokenIsAStopTokenAndIncludeLeavesTheText) {
  StopMachine one = with_sequences({{9}});
  EXPECT_EQ(one.push(9, ""), FinishReason::stop);
  EXPECT_EQ(one.stop_token(), 9u);
  StopMachine kept = with_sequences({{5, 6}}, 0, true);
  EXPECT_EQ(kept.push(5, "five"), std::nullopt);
  EXPECT_EQ(kept.push(6, "six"), FinishReason::stop);
  kept.close("");
  EXPECT_EQ(kept.text(), "fivesix");
}

TEST(StopSequences, OneThatIsCompleteBeforeMinTokensIsLetThrough) {
  StopMachine m = with_sequences({{5, 6}}, 3);
  EXPECT_EQ(m.push(5, "a"), std::nullopt);
  EXPECT_EQ(m.push(6, "b"), std::nullopt);
  EXPECT_EQ(m.push(5, "c"), std::nullopt);
  EXPECT_EQ(m.push(6, "d"), FinishReason::stop);
  m.close("");
  EXPECT_EQ(m.text(), "ab");
}

TEST(StopSequences, TheLongestCountsWhereItEndsInAStopToken) {
  const Stops stops{.strings = {}, .token_ids = {8}, .sequences = {{5, 2}, {6, 8}}};
  const auto rules = std::make_shared<const StopRules>(stops, Tokens{2}, 0, 100);
  StopMachine m(rules);
  EXPECT_EQ(m.push(4, "four "), std::nullopt);
  EXPECT_EQ(m.push(5, "five "), std::nullopt);
  EXPECT_EQ(m.push(2, ""), FinishReason::stop);  // the end of text
  m.close("");
  EXPECT_EQ(m.text(), "four ");
  EXPECT_EQ(m.stop_sequence(), (Tokens{5, 2}));
  EXPECT_EQ(m.stop_token(), std::nullopt);
  StopMachine other(rules);
  EXPECT_EQ(other.push(5, "five "), std::nullopt);
  EXPECT_EQ(other.push(8, ""), FinishReason::stop);
  other.close("");
  EXPECT_EQ(other.text(), "five ");
  EXPECT_EQ(other.stop_token(), 8u);
}
// Compares with the plain definition: the first sequence that is complete in random tokens, with
// its text cut off.
TEST(StopSequences, EqualSearchInRandomTokens) {
  std::mt19937 random(11);
  for (int round = 0; round < 2000; ++round) {
    std::vector<Tokens> sequences(1 + random() % 3);
    for (Tokens& s : sequences) {
      for (std::size_t i = 0, n = 2 + random() % 3; i < n; ++i)
        s.push_back(static_cast<TokenId>(10 + random() % 2));
    }
    StopMachine m = with_sequences(sequences);
    Tokens tokens;
    std::string text;
    std::vector<std::size_t> begins;
    bool stopped = false;
    for (int i = 0; i < 12 && !stopped; ++i) {
      const TokenId id = 10 + static_cast<TokenId>(random() % 3);
      const std::string piece(random() % 3, static_cast<char>('a' + i));
      begins.push_back(text.size());
      tokens.push_back(id);
      text += piece;
      stopped = m.push(id, piece).has_value();
      ASSERT_TRUE(text.starts_with(m.text()));
      std::size_t longest = 0;
      for (const Tokens& s : sequences) {
        if (tokens.size() >= s.size() && std::equal(s.rbegin(), s.rend(), tokens.rbegin())) {
          longest = std::max(longest, s.size());
        }
      }
      ASSERT_EQ(stopped, longest > 0);
      if (stopped) text.resize(begins[begins.size() - longest]);
    }
    m.close("");
    ASSERT_EQ(m.text(), text);
  }
}

}  // namespace
}  // namespace millrace::engine
