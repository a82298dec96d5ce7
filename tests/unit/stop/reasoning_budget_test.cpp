// When reasoning is closed: after which token, by which tokens, whatever the text was cut into.
#include "engine/core/stop/reasoning_budget.hpp"

#include <gtest/gtest.h>

#include <string>

namespace millrace::engine {
namespace {

const Marker think = {MarkedPart::reasoning, "<think>", "</think>", true};
const Marker quote = {MarkedPart::reasoning, "[", "]"};
const Marker call = {MarkedPart::tool_call, "<call>", "</call>"};
const std::vector<Marker> gpt_oss = {{MarkedPart::channel, "<|start|>", "<|message|>"},
                                     {MarkedPart::channel, "<|channel|>", "<|message|>"},
                                     {MarkedPart::channel, "<|end|>", "<|message|>"}};
constexpr TokenId drawn = 7;  // stands for any token that is drawn

struct Case {
  std::vector<Marker> markers;
  std::int32_t inside = -1;
  ReasoningLimit limit;
  std::string header = {};
};

// What tokens are forced, in the order of the answer's: `drawn` for those that are not. The model
// draws `pieces`; a forced token's text is that of `closing`.
Tokens run(const Case& c, const std::vector<std::string>& pieces,
           const std::vector<std::string>& closing) {
  const auto rules = std::make_shared<const PartRules>(c.markers, c.inside, c.header);
  ReasoningBudget budget(c.limit, rules);
  Tokens out;
  std::size_t next = 0, closed = 0;
  while (next < pieces.size() || budget.forced()) {
    const auto forced = budget.forced();
    out.push_back(forced.value_or(drawn));
    budget.push(forced ? closing[closed++ % closing.size()] : pieces[next++]);
  }
  return out;
}

TEST(ReasoningBudget, CountsTheTokensBetweenTheMarkers) {
  const Case c = {{think, call}, -1, {2, {{50}, {}}, {}}};
  const std::vector<std::string> thought = {"<think>", "a", " b", " c", " d"};
  EXPECT_EQ(run(c, thought, {"</think>"}), (Tokens{7, 7, 7, 50, 7, 7}));
  // A model that closes the part itself in time is left alone, and so is other text.
  EXPECT_EQ(run(c, {"<think>", "a", "</think>", "b", "c", "d"}, {"?"}), Tokens(6, drawn));
  EXPECT_EQ(run(c, {"<call>", "a", "b", "c", "d"}, {"?"}), Tokens(5, drawn));
  EXPECT_EQ(run(c, {"a", "<think>", "b", "c", "d"}, {"?"}), Tokens(5, drawn)) << "a quotation";
  // It is closed with the very next token after the last that may be drawn.
  EXPECT_EQ(run(c, {"<think>", "a", "b"}, {"</think>"}), (Tokens{7, 7, 7, 50}));
}

TEST(ReasoningBudget, BeginsWithAPartThatThePromptLeavesOpen) {
  EXPECT_EQ(run({{think}, 0, {1, {{50}}, {}}}, {"a", "b"}, {"</think>"}), (Tokens{7, 50, 7}));
  EXPECT_EQ(run({{think}, 0, {0, {{50}}, {}}}, {"a", "b"}, {"</think>"}), (Tokens{50, 7, 7}));
}

TEST(ReasoningBudget, OfNothingClosesWhatTheModelOpens) {
  const Case c = {{think}, -1, {0, {{50}}, {}}};
  EXPECT_EQ(run(c, {"<think>", "a"}, {"</think>"}), (Tokens{7, 50, 7}));
  EXPECT_EQ(run(c, {"<thi", "nk>", "a"}, {"</think>"}), (Tokens{7, 7, 50, 7}));
  EXPECT_EQ(run(c, {"a", "b"}, {"?"}), Tokens(2, drawn));
}

TEST(ReasoningBudget, ForcesAllTokensOfAClosingAndCountsNoneOfThem) {
  const Case c = {{think}, -1, {1, {{50, 51, 52}}, {}}};
  EXPECT_EQ(run(c, {"<think>", "a", "b", "c"}, {"</", "think", ">"}),
            (Tokens{7, 7, 50, 51, 52, 7, 7}));
  // Also where the model had begun to write it.
  EXPECT_EQ(run(c, {"<think>", "</", "b"}, {"</", "think", ">"}), (Tokens{7, 7, 50, 51, 52, 7}));
}

TEST(ReasoningBudget, IsOfAllPartsTogether) {
  const Case c = {{quote}, -1, {3, {{50}}, {}}};
  EXPECT_EQ(run(c, {"[", "a", "b", "]", "c", "[", "d", "e", "[", "f"}, {"]"}),
            (Tokens{7, 7, 7, 7, 7, 7, 7, 50, 7, 7, 50, 7}));
}

TEST(ReasoningBudget, EndsAMessageOfAnalysis) {
  const Case c = {gpt_oss, 0, {2, {{}, {}, {}}, {50, 51, 52, 53, 54, 55}}};
  const std::vector<std::string> closing = {"<|end|>",     "<|start|>", "assistant",
                                            "<|channel|>", "final",     "<|message|>"};
  const std::vector<std::string> header = {"<|channel|>", "analysis", "<|message|>"};
  std::vector<std::string> text = header;
  text.insert(text.end(), {"a", "b", "c", "d"});
  EXPECT_EQ(run(c, text, closing), (Tokens{7, 7, 7, 7, 7, 50, 51, 52, 53, 54, 55, 7, 7}));
  text.resize(4);  // a short one, which the model ends itself
  text.insert(text.end(), {"<|end|>", "<|start|>", "assistant", "<|channel|>", "final",
                           "<|message|>", "b", "c", "d"});
  EXPECT_EQ(run(c, text, closing), Tokens(text.size(), drawn));
  // In a message that the prompt begins.
  const Case begun = {gpt_oss, -1, {1, {{}, {}, {}}, c.limit.message_closing}, "analysis"};
  EXPECT_EQ(run(begun, {"a", "b"}, closing), (Tokens{7, 50, 51, 52, 53, 54, 55, 7}));
}

}  // namespace
}  // namespace millrace::engine
