// An assistant's turn that only calls tools has no content, which some chat templates cannot take.
#include "tests/unit/engine/encoding_fixture.hpp"

namespace millrace::engine {
namespace {

// A question, a turn with a call and no content, and the call's result.
Chat chat_with_call() {
  JsonObject function = {{"name", {"f"}}, {"arguments", {JsonObject{{"a", {std::int64_t{1}}}}}}};
  Chat chat = {{"user", "q"}, {"assistant", std::nullopt}, {"tool", "r"}};
  chat[1].more = {{"tool_calls", {JsonList{{JsonObject{{"function", {std::move(function)}}}}}}}};
  return chat;
}

class AbsentContents : public EncodingTest {};

const std::string each = "{% for m in messages %}";

TEST_F(AbsentContents, AreEmptyForATemplateThatJoinsTexts) {
  const std::string joins = each + "{{ m['role'] + ':' + m['content'] + ';' }}{% endfor %}";
  EXPECT_EQ(encoded(joins, chat_with_call()), tokens("user:q;assistant:;tool:r;"));
}

TEST_F(AbsentContents, AreNoneForATemplateThatTellsThemApart) {
  const std::string tests =
      each + "{% if m.content is none %}call;{% else %}{{ m.content }};{% endif %}{% endfor %}";
  EXPECT_EQ(encoded(tests, chat_with_call()), tokens("q;call;r;"));
  const std::string prints = each + "{{ m.content }};{% endfor %}";
  EXPECT_EQ(encoded(prints, chat_with_call()), tokens("q;None;r;"));  // as transformers does
}

TEST_F(AbsentContents, AreEmptyBesideArgumentsThatAreTexts) {
  const std::string joins = each +
                            "{{ m['content'] + ';' }}{% for c in m.tool_calls or [] %}"
                            "{{ '!' + c.function.arguments }}{% endfor %}{% endfor %}";
  EXPECT_EQ(encoded(joins, chat_with_call()), tokens(R"(q;;!{"a":1}r;)"));
}

TEST_F(AbsentContents, OfOtherTurnsStayErrors) {
  Chat chat = chat_with_call();
  chat[1].role = "user";
  const auto failed = encoded(each + "{{ m['content'] + ';' }}{% endfor %}", chat);
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::template_error);
}

}  // namespace
}  // namespace millrace::engine
