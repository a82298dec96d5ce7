#pragma once
// A loop whose requests are encoded with a chat template that the test gives as its source.
#include <string>

#include "engine/core/request/encode_prompt.hpp"
#include "tests/unit/engine/loop_fixture.hpp"

namespace millrace::engine {

class EncodingTest : public LoopTest {
 protected:
  void SetUp() override { open(); }

  // The prompt that this template makes of the chat.
  Result<Tokens> encoded(const std::string& source, const Chat& chat) {
    const Result<ChatTemplate> custom = ChatTemplate::parse(source);
    EXPECT_TRUE(custom) << custom.error().text();
    RequestContext context = context_;
    context.chat_template = &custom;
    GenerationRequest request;
    request.prompt = chat;
    return encode_prompt(request, context);
  }
  static Tokens tokens(const std::string& text) {
    return host_parts().tokenizer.tokenize(text, {});
  }
};

}  // namespace millrace::engine
