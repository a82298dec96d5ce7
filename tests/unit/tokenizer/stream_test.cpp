#include "engine/core/tokenizer/stream_decoder.hpp"
#include "tests/unit/tokenizer/support.hpp"

namespace millrace::testing {
namespace {

using engine::StreamDecoder;

class StreamTest : public ::testing::Test {
 protected:
  TestVocabulary test_;
  TokenId special_ = test_.add("<|end|>", 3);
  engine::Tokenizer tokenizer_ = load_good(test_.builder());

  std::string stream(const Tokens& tokens, bool render_special = false) {
    StreamDecoder decoder(tokenizer_, {.render_special = render_special});
    std::string text;
    for (const auto token : tokens) {
      const auto piece = decoder.push(token).value();
      EXPECT_TRUE(utf8_valid(piece));
      text += piece;
    }
    return text + decoder.finish();
  }
};

// Tries every sequence of up to four bytes from a set that holds each kind of UTF-8 byte. The
// stream gives the same text byte by byte as detokenize gives at once.
TEST_F(StreamTest, EqualsDetokenizeForEverySequence) {
  const std::vector<TokenId> bytes{'a', 0x80, 0xa9, 0xc3, 0xc1, 0xe2, 0xed, 0xf0, 0xf4, 0x9f};
  Tokens tokens;
  const auto walk = [&](const auto& self, int depth) -> void {
    ASSERT_EQ(stream(tokens), tokenizer_.detokenize(tokens, {}).value());
    if (depth == 0) return;
    for (const auto byte : bytes) {
      tokens.push_back(byte);
      self(self, depth - 1);
      tokens.pop_back();
    }
  };
  walk(walk, 4);
}

TEST_F(StreamTest, HoldsBackAnIncompleteCharacter) {
  StreamDecoder decoder(tokenizer_, {});
  const std::string llama = "🦙";
  for (std::size_t i = 0; i + 1 < llama.size(); ++i)
    EXPECT_EQ(decoder.push(static_cast<std::uint8_t>(llama[i])).value(), "");
  EXPECT_EQ(decoder.push(static_cast<std::uint8_t>(llama.back())).value(), llama);
  EXPECT_EQ(decoder.finish(), "");
}

TEST_F(StreamTest, FlushesWithAReplacementCharacter) {
  StreamDecoder decoder(tokenizer_, {});
  EXPECT_EQ(decoder.push('x').value(), "x");
  EXPECT_EQ(decoder.push(0xf0).value(), "");
  EXPECT_EQ(decoder.push(0x9f).value(), "");
  EXPECT_EQ(decoder.finish(), "\uFFFD");
  EXPECT_EQ(decoder.finish(), "");
  EXPECT_EQ(decoder.push('y').value(), "y");  // the decoder is reset
}

TEST_F(StreamTest, DamagedBytesComeOutAtOnce) {
  StreamDecoder decoder(tokenizer_, {});
  EXPECT_EQ(decoder.push(0xff).value(), "\uFFFD");
  EXPECT_EQ(decoder.push(0xe2).value(), "");
  EXPECT_EQ(decoder.push('a').value(), "\uFFFDa");
}

TEST_F(StreamTest, SpecialTokensAreSkippedOrRendered) {
  EXPECT_EQ(stream({'a', special_, 'b'}), "ab");
  EXPECT_EQ(stream({'a', special_, 'b'}, true), "a<|end|>b");
  EXPECT_EQ(stream({0xc3, special_, 0xa9}), "é");  // a skipped token does not split a character
}

TEST_F(StreamTest, RefusesAnIdAndContinues) {
  StreamDecoder decoder(tokenizer_, {});
  EXPECT_EQ(decoder.push(0xc3).value(), "");
  const auto refused = decoder.push(9999);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::invalid_token);
  EXPECT_EQ(decoder.push(0xa9).value(), "é");
}

}  // namespace
}  // namespace millrace::testing
