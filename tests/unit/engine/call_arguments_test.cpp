// Chat templates take the arguments of earlier tool calls as objects or as texts.
#include "engine/core/request/call_arguments.hpp"

#include "tests/unit/engine/encoding_fixture.hpp"

namespace millrace::engine {
namespace {

Chat chat_of(Json arguments) {
  JsonObject function = {{"name", {"f"}}, {"arguments", std::move(arguments)}};
  Chat chat(1);
  chat[0].role = "assistant";
  chat[0].more = {{"tool_calls", {JsonList{{JsonObject{{"function", {std::move(function)}}}}}}}};
  return chat;
}

const Json arguments = {
    JsonObject{{"b", {std::int64_t{1}}}, {"a", {JsonList{{}, {true}, {"ü\""}}}}}};

class CallArguments : public EncodingTest {};

const std::string arguments_of = "messages[0]['tool_calls'][0]['function']['arguments']";

TEST_F(CallArguments, ATemplateThatWritesJsonGetsTheObject) {
  EXPECT_EQ(encoded("{{ 'x' + (" + arguments_of + " | tojson) }}", chat_of(arguments)),
            tokens(R"(x{"b": 1, "a": [null, true, "ü\""]})"));
}

TEST_F(CallArguments, ATemplateThatJoinsTextsGetsTheText) {
  EXPECT_EQ(encoded("{{ 'x' + " + arguments_of + " }}", chat_of(arguments)),
            tokens(R"(x{"b":1,"a":[null,true,"ü\""]})"));
  EXPECT_EQ(encoded("{{ 'x' + " + arguments_of + " }}", chat_of({"{ }"})), tokens("x{ }"));
}

TEST_F(CallArguments, AnErrorThatTextsDoNotMendIsTheFirstOne) {
  const auto failed = encoded("{{ raise_exception('no ' + role) }}{{ 'x' + " + arguments_of + " }}",
                              chat_of(arguments));
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, Code::template_error);
}

TEST(CallArgumentsText, OfAChatWithoutObjectsThereIsNone) {
  EXPECT_EQ(with_text_arguments({{"user", "x"}}), std::nullopt);
  EXPECT_EQ(with_text_arguments(chat_of({"{}"})), std::nullopt);
  EXPECT_EQ(with_text_arguments(chat_of(arguments)), chat_of({R"({"b":1,"a":[null,true,"ü\""]})"}));
}

}  // namespace
}  // namespace millrace::engine
