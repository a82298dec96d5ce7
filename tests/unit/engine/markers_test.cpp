// The markers that a model is known to write, found in its vocabulary.
#include "engine/core/request/markers.hpp"

#include <gtest/gtest.h>

#include "tests/unit/tokenizer/support.hpp"

namespace millrace::engine {
namespace {

constexpr std::int32_t control = 3, user_defined = 4;

TEST(KnownMarkers, AreThoseThatTheVocabularyHoldsAsOneToken) {
  millrace::testing::TestVocabulary v;
  EXPECT_TRUE(known_markers(millrace::testing::load_good(v.builder())).empty());
  v.add("<think>", user_defined);
  v.add("</think>", user_defined);
  const TokenId calls = v.add("[TOOL_CALLS]", control);
  v.add("<|tool_call|>", user_defined);  // without a closing: the part reaches to the end
  const Tokenizer tokenizer = millrace::testing::load_good(v.builder());
  const std::vector<Marker> expected = {{MarkedPart::reasoning, "<think>", "</think>"},
                                        {MarkedPart::tool_call, "[TOOL_CALLS]", ""},
                                        {MarkedPart::tool_call, "<|tool_call|>", ""}};
  EXPECT_EQ(known_markers(tokenizer), expected);
  const auto added = [&](std::string_view prompt) {
    TokenizeOptions options;
    options.parse_special = true;
    StopRules rules({}, {}, 0, 9);
    MarkerRequest request;
    request.known = true;
    add_markers(request, tokenizer.tokenize(prompt, options), tokenizer, rules);
    return rules;
  };
  EXPECT_EQ(added("Is it?").marker_ids, Tokens{calls});  // the others have a text of their own
  EXPECT_EQ(added("Is it?").parts->markers(), expected);
  EXPECT_EQ(added("Is it?").parts->inside(), -1);
  EXPECT_EQ(added("Is it? <think>\n\n").parts->inside(), 0);
  EXPECT_EQ(added("Is it? <think></think>").parts->inside(), -1);
}

}  // namespace
}  // namespace millrace::engine
