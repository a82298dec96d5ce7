// Chats in jobs: messages with any fields, tools, and variables of the template.
#include <gtest/gtest.h>

#include <set>

#include "schemas/codec.hpp"
#include "tests/unit/schemas/build.hpp"
#include "tests/unit/schemas/job_expectations.hpp"

namespace millrace {
namespace {

using namespace build;

TEST(Job, ChatMessages) {
  const auto chat = [](const std::string& message) { return map({{"messages", arr({message})}}); };
  const auto one = [&](Pairs pairs) { return chat(map(pairs)); };
  EXPECT_EQ(accepted(one({{"role", str("user")},
                          {"content", arr({map({{"type", str("text")}, {"text", str("a")}}),
                                           map({{"text", str("b")}, {"type", str("text")}})})}}))
                .job.request.prompt,
            Prompt(Chat{{"user", "ab", {}, {"a", "b"}}}));
  EXPECT_REFUSED(map({{"messages", arr({})}}), empty_prompt, "messages");
  EXPECT_REFUSED(map({{"messages", str("x")}}), invalid_value, "messages");
  EXPECT_REFUSED(chat(str("x")), invalid_value, "messages[0]");
  EXPECT_REFUSED(one({{"role", str("user")}}), missing_field, "messages[0].content");
  EXPECT_REFUSED(one({{"role", str("user")}, {"content", nil()}}), missing_field,
                 "messages[0].content");
  EXPECT_REFUSED(one({{"content", str("x")}}), missing_field, "messages[0].role");
  EXPECT_REFUSED(one({{"role", str("")}, {"content", str("x")}}), invalid_value, "role");
  EXPECT_REFUSED(
      one({{"role", str("user")}, {"content", arr({map({{"type", str("image_url")}})})}}),
      unsupported_field, "messages[0].content[0].type");
  EXPECT_REFUSED(one({{"role", str("user")}, {"content", arr({map({{"type", str("text")}})})}}),
                 missing_field, "messages[0].content[0].text");
}

// A message may hold any JSON, in its order; null means absent.
TEST(Job, MessagesHoldAnyField) {
  const std::string call =
      map({{"function", map({{"b", real(0.5)}, {"a", arr({uint(1), nil()})}})}});
  const auto of = [](const std::string& message) {
    return std::get<Chat>(accepted(map({{"messages", arr({message})}})).job.request.prompt).at(0);
  };
  const ChatMessage message = of(map({{"tool_calls", arr({call})},
                                      {"role", str("assistant")},
                                      {"content", nil()},
                                      {"name", nil()},
                                      {"ok", boolean(true)}}));
  const JsonObject function = {{"b", {0.5}}, {"a", {JsonList{{std::int64_t{1}}, {}}}}};
  EXPECT_EQ(message,
            (ChatMessage{"assistant",
                         std::nullopt,
                         {{"tool_calls", {JsonList{{JsonObject{{"function", {function}}}}}}},
                          {"ok", {true}}}}));
  EXPECT_TRUE(
      accepted(
          map({{"messages",
                arr({map({{"role", str("user")}, {"content", str("x")}, {"mood", uint(1)}})})}}))
          .warnings.empty());
  EXPECT_REFUSED(
      map({{"messages",
            arr({map({{"role", str("user")}, {"content", str("x")}, {"big", uint(~0ull)}})})}}),
      invalid_value, "messages[0].big");
  EXPECT_REFUSED(
      map({{"messages",
            arr({map({{"role", str("user")}, {"content", str("x")}, {"raw", bin("x")}})})}}),
      invalid_value, "messages[0].raw");
}

TEST(Job, ToolsAndVariablesOfTheTemplate) {
  const std::string messages = arr({map({{"role", str("user")}, {"content", str("x")}})});
  const auto chat = [&](const std::string& key, const std::string& value) {
    return map({{"messages", messages}, {key, value}});
  };
  EXPECT_EQ(accepted(chat("tools", arr({map({{"name", str("f")}})}))).job.request.chat.tools,
            (JsonList{{JsonObject{{"name", {"f"}}}}}));
  EXPECT_EQ(accepted(chat("tool_choice", str("none"))).job.request.chat.tool_choice,
            ToolChoice::none);
  EXPECT_EQ(accepted(chat("chat_template_kwargs", map({{"enable_thinking", boolean(false)}})))
                .job.request.chat.template_kwargs,
            (JsonObject{{"enable_thinking", {false}}}));
  std::string deep = map({});
  for (std::uint32_t i = 3; i < limits::job_depth; ++i) deep = map({{"x", deep}});
  accepted(chat("tools", arr({deep})));
  EXPECT_REFUSED(chat("tools", arr({map({{"x", deep}})})), limit_exceeded, "nested too deep");
  EXPECT_REFUSED(chat("tools", arr({str("f")})), invalid_value, "tools[0]");
  EXPECT_REFUSED(chat("tools", map({})), invalid_value, "tools");
  EXPECT_REFUSED(chat("tool_choice", str("required")), unsupported_field, "tool_choice");
  EXPECT_REFUSED(chat("tool_choice", map({{"type", str("function")}})), unsupported_field,
                 "tool_choice");
  EXPECT_REFUSED(chat("chat_template_kwargs", str("x")), invalid_value, "chat_template_kwargs");
  EXPECT_REFUSED(chat("chat_template_kwargs", map({{"messages", arr({})}})), invalid_value,
                 "chat_template_kwargs.messages");
  EXPECT_REFUSED(with("tools", arr({map({})})), invalid_value, "tools");
  EXPECT_REFUSED(with("chat_template_kwargs", map({{"a", uint(1)}})), invalid_value,
                 "chat_template_kwargs");
}

TEST(Job, AFieldAboutBosIsRefusedBesideMessages) {
  const std::string messages = arr({map({{"role", str("user")}, {"content", str("x")}})});
  for (const bool value : {false, true}) {
    EXPECT_REFUSED(map({{"messages", messages}, {"add_special_tokens", boolean(value)}}),
                   invalid_value, "add_special_tokens has no meaning for messages");
    EXPECT_TRUE(decode_job(map({{"messages", messages}, {"parse_special", boolean(value)}})));
  }
  EXPECT_TRUE(decode_job(map({{"messages", messages}, {"add_special_tokens", nil()}})));
}

// They are part of the prompt.
TEST(Job, TheDerivedSeedCoversWhatTheTemplateSees) {
  Job job;
  job.request.prompt = Chat{{"user", "hi"}};
  std::set<std::uint64_t> seeds = {derived_seed(job)};
  job.request.chat.tools = {{JsonObject{{"name", {"f"}}}}};
  seeds.insert(derived_seed(job));
  job.request.chat.tool_choice = ToolChoice::none;
  seeds.insert(derived_seed(job));
  job.request.chat.template_kwargs = {{"enable_thinking", {false}}};
  seeds.insert(derived_seed(job));
  std::get<Chat>(job.request.prompt)[0].more = {{"name", {"bob"}}};
  seeds.insert(derived_seed(job));
  std::get<Chat>(job.request.prompt)[0].parts = {"h", "i"};
  seeds.insert(derived_seed(job));
  EXPECT_EQ(seeds.size(), 6u);
}

}  // namespace
}  // namespace millrace
