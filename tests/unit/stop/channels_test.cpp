// The messages of gpt-oss: headers that name a channel, and what they say about the text.
#include <gtest/gtest.h>

#include "engine/core/stop/stop_machine.hpp"

namespace millrace::engine {
namespace {

const std::vector<Marker> harmony = {{MarkedPart::channel, "<|start|>", "<|message|>"},
                                     {MarkedPart::channel, "<|channel|>", "<|message|>"},
                                     {MarkedPart::channel, "<|end|>", "<|message|>"}};

// `inside`: 0 for a text after a prompt that ends with <|start|>assistant.
TextParts parts_of(std::string_view text, std::int32_t inside = 0, std::size_t piece = 0) {
  TextParts parts(std::make_shared<const PartRules>(harmony, inside));
  piece = piece == 0 ? text.size() + 1 : piece;
  for (std::size_t at = 0; at < text.size(); at += piece) parts.push(text.substr(at, piece));
  parts.flush();
  return parts;
}

using Calls = std::vector<std::string>;

TEST(Channels, AnalysisIsReasoningAndTheRestIsTheAnswerHoweverTheTextIsCut) {
  const std::string text =
      "<|channel|>analysis<|message|>Think <b>.<|end|><|start|>assistant<|channel|>commentary"
      "<|message|>I look.<|end|><|start|>assistant<|channel|>analysis<|message|>More.<|end|>"
      "<|start|>assistant<|channel|>final<|message|>It is <|x|> 4.";
  for (std::size_t piece = 1; piece <= text.size(); ++piece) {
    const TextParts parts = parts_of(text, 0, piece);
    EXPECT_EQ(parts.text(), "I look.It is <|x|> 4.") << piece;
    EXPECT_EQ(parts.reasoning(), "Think <b>.More.") << piece;
    EXPECT_EQ(parts.tool_calls(), Calls());
    ASSERT_EQ(parts.spans().size(), 2u);
    EXPECT_EQ(parts.spans()[0].begin, 0u);
    EXPECT_EQ(parts.spans()[0].end, text.find("<|end|>"));
    EXPECT_EQ(parts.spans()[1].end, text.rfind("<|end|>"));
  }
}

TEST(Channels, AMessageToARecipientIsAToolCall) {
  const TextParts parts = parts_of(
      "<|channel|>analysis<|message|>Ask.<|end|><|start|>assistant<|channel|>commentary "
      "to=functions.weather <|constrain|>json<|message|>{\"city\": \"Bern\"}");
  EXPECT_EQ(parts.text(), "");
  EXPECT_EQ(parts.reasoning(), "Ask.");
  EXPECT_EQ(parts.tool_calls(),
            Calls{"<|start|>assistant<|channel|>commentary to=functions.weather "
                  "<|constrain|>json<|message|>{\"city\": \"Bern\"}"});
  // The recipient may stand before the channel, and a tool may be called while thinking.
  EXPECT_EQ(parts_of(" to=python<|channel|>analysis<|message|>1+1").tool_calls(),
            Calls{" to=python<|channel|>analysis<|message|>1+1"});
}

TEST(Channels, AHeaderThatDoesNotEndIsNoText) {
  EXPECT_EQ(parts_of("<|channel|>analysis<|message|>Think.<|end|><|start|>assi").text(), "");
  EXPECT_EQ(parts_of("<|channel|>fin").text(), "");
  const TextParts cut = parts_of("<|channel|>analysis<|message|>Think");
  EXPECT_EQ(cut.reasoning(), "Think");
  EXPECT_EQ(cut.text(), "");
  EXPECT_EQ(cut.spans().at(0).end, PartSpan::open_end);
  EXPECT_EQ(parts_of("<|channel|>final<|message|>4.<|end").text(), "4.<|end");
}

TEST(Channels, ATextWithoutHeadersIsTheAnswer) {
  EXPECT_EQ(parts_of("It is 4.").text(), "It is 4.");
  EXPECT_EQ(parts_of("It is 4.<|end|>").text(), "It is 4.");
  EXPECT_EQ(parts_of("<|message|>It is 4.").text(), "It is 4.");
  EXPECT_EQ(parts_of("It is 4.", -1).text(), "It is 4.");
  EXPECT_FALSE(parts_of("It is 4.").reasoning());
}

TEST(Channels, APromptMayLeaveAHeaderOpen) {
  EXPECT_EQ(open_marker_at_end(harmony, "Hi<|end|><|start|>assistant"), 0);
  EXPECT_EQ(open_marker_at_end(harmony, "<|start|>assistant<|channel|>"), 1);
  EXPECT_EQ(open_marker_at_end(harmony, "<|start|>assistant<|channel|>final<|message|>"), -1);
  EXPECT_EQ(open_marker_at_end(harmony, "Hi<|end|>"), 2);
  EXPECT_EQ(open_marker_at_end(harmony, "Hi"), -1);
}

// A text after this prompt.
TextParts parts_after(std::string_view prompt, std::string_view text) {
  TextParts parts(std::make_shared<const PartRules>(harmony, open_marker_at_end(harmony, prompt),
                                                    header_at_end(harmony, prompt)));
  for (const char c : text) parts.push({&c, 1});
  parts.flush();
  return parts;
}

TEST(Channels, APromptMayAnnounceTheMessageThatTheTextBeginsWith) {
  const std::string before = "<|start|>user<|message|>to=analysis?<|end|>";
  const std::string final = "<|end|><|start|>assistant<|channel|>final<|message|>4.";
  const std::string start = before + "<|start|>assistant";
  for (const char* header :
       {"<|channel|>analysis<|message|>", "<|channel|>analysis<|message|>\n"}) {
    const TextParts parts = parts_after(start + header, "Hm." + final);
    EXPECT_EQ(parts.reasoning(), "Hm.");
    EXPECT_EQ(parts.text(), "4.");
    ASSERT_EQ(parts.spans().size(), 1u);
    EXPECT_EQ(parts.spans()[0].begin, 0u);
    EXPECT_EQ(parts.spans()[0].end, 3u);
  }
  // Also one whose header goes on in the text.
  EXPECT_EQ(parts_after(start + "<|channel|>analysis", "<|message|>Hm." + final).reasoning(),
            "Hm.");
  EXPECT_EQ(parts_after(start, "<|channel|>analysis<|message|>Hm." + final).reasoning(), "Hm.");
  const TextParts call = parts_after(start + " to=f<|channel|>commentary<|message|>", "{}" + final);
  EXPECT_EQ(call.tool_calls(), (Calls{"{}"}));
  EXPECT_EQ(call.text(), "4.");
  for (const std::string& header : {std::string("<|channel|>final<|message|>"), std::string()}) {
    EXPECT_EQ(parts_after(start + header, "4.").text(), "4.");
    EXPECT_FALSE(parts_after(start + header, "4.").reasoning()) << "nor by what the user wrote";
  }
  EXPECT_EQ(header_at_end(harmony, "no header"), "");
}

}  // namespace
}  // namespace millrace::engine
