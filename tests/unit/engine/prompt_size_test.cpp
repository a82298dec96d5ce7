// A prompt that cannot fit the context is refused by its size.
#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {
namespace {

std::string letters(std::size_t count) {
  return std::string(count, 'a');
}

// A prompt that is too long by its bytes is not tokenized, and a chat is not rendered to its end:
// the errors tell the bytes, and no number of tokens.
TEST_F(LoopTest, APromptIsRefusedByItsBytes) {
  open();
  const std::uint64_t most = 2048 * host_parts().tokenizer.reach().longest();
  GenerationRequest r;
  r.sampling.seed = 1;
  r.max_tokens = 1;
  r.prompt = letters(120'000'000);
  const auto text = engine::prepare(r, context_);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().code, Code::context_exceeded);
  EXPECT_NE(text.error().message.find("the prompt has 120000000 bytes; no text of more than " +
                                      std::to_string(most) + " bytes that need tokens fits"),
            std::string::npos)
      << text.error().text();
  r.prompt = Chat{{"user", letters(20'000'000)}};
  const auto chat = engine::prepare(r, context_);
  ASSERT_FALSE(chat);
  EXPECT_EQ(chat.error().code, Code::context_exceeded);
  EXPECT_TRUE(chat.error().message.starts_with("the rendered chat has 20000"))
      << chat.error().text();
  r.prompt = Tokens(2049, 100);
  const auto ids = engine::prepare(r, context_);
  ASSERT_FALSE(ids);
  EXPECT_EQ(ids.error().code, Code::context_exceeded);
  // A text at the bound is tokenized, and its tokens are counted.
  r.prompt = letters(most);
  const auto counted = engine::prepare(r, context_);
  ASSERT_FALSE(counted);
  EXPECT_NE(counted.error().message.find("prompt ("), std::string::npos) << counted.error().text();
  // The test model's vocabulary has no token for this byte, so it leaves it out.
  r.prompt = std::string(most, '\4') + "hello";
  const auto hello = engine::prepare(r, context_);
  ASSERT_TRUE(hello) << hello.error().text();
  EXPECT_EQ(hello->prompt, host_parts().tokenizer.tokenize("hello", {}));
}

}  // namespace
}  // namespace millrace::engine
