#include "schemas/openai/tool_call.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace millrace::openai {
namespace {

using Calls = std::vector<ToolCall>;

const Calls weather = {{"get_weather", R"({"city":"Köln","days":2})"}};

Calls parse(std::string_view text, const JsonList& tools = {}) {
  return parse_tool_calls(text, tools);
}

// A tool of one argument, `zip`, that is a text.
JsonList zip_tool() {
  const JsonObject zip = {{"type", {"string"}}};
  const JsonObject parameters = {{"type", {"object"}},
                                 {"properties", {JsonObject{{"zip", {zip}}}}}};
  const JsonObject function = {{"name", {"by_zip"}}, {"parameters", {parameters}}};
  return {{JsonObject{{"type", {"function"}}, {"function", {function}}}}};
}

TEST(ToolCall, ObjectsOfHermesQwenAndLlama) {
  const char* arguments = R"({"city": "Köln", "days": 2})";
  for (const std::string& text :
       {std::string("\n{\"name\": \"get_weather\", \"arguments\": ") + arguments + "}\n",
        std::string("{\"name\":\"get_weather\",\"parameters\":") + arguments + "}",
        std::string(R"({"type":"function","function":{"name":"get_weather","arguments":)") +
            arguments + "}}",
        std::string(R"({"arguments":"{\"city\":\"Köln\",\"days\":2}","name":"get_weather"})")}) {
    EXPECT_EQ(parse(text), weather) << text;
  }
  EXPECT_EQ(parse(R"({"name":"now"})"), (Calls{{"now", "{}"}}));
  EXPECT_EQ(parse(R"({"name":"a","arguments":{}}; {"name":"b","arguments":{}})"),
            (Calls{{"a", "{}"}, {"b", "{}"}}));
}

TEST(ToolCall, ArraysOfMistralGraniteAndPhi) {
  EXPECT_EQ(
      parse(R"( [{"name": "get_weather", "arguments": {"city": "Köln", "days": 2}, "id": "x"}])"),
      weather);
  EXPECT_EQ(parse(R"([{"name":"a","arguments":{}},{"name":"b"}])"),
            (Calls{{"a", "{}"}, {"b", "{}"}}));
}

TEST(ToolCall, NamesBeforeTheirArguments) {
  EXPECT_EQ(parse(R"(get_weather[ARGS]{"city": "Köln", "days": 2})"), weather);
  EXPECT_EQ(parse(R"(get_weather{"city": "Köln", "days": 2})"), weather);
  EXPECT_EQ(parse(R"(a[CALL_ID]Zx9[ARGS]{}[TOOL_CALLS]b[ARGS]{"k": "}"})"),
            (Calls{{"a", "{}"}, {"b", R"({"k":"}"})"}}));
}

TEST(ToolCall, BuiltInToolsOfLlama) {
  EXPECT_EQ(parse(R"x(brave_search.call(query="a, (b)", deep=True, n=3))x"),
            (Calls{{"brave_search", R"x({"query":"a, (b)","deep":true,"n":3})x"}}));
  EXPECT_EQ(parse("now.call()"), (Calls{{"now", "{}"}}));
}

TEST(ToolCall, TagsOfQwen3Coder) {
  EXPECT_EQ(parse("\n<function=get_weather>\n<parameter=city>\nKöln\n</parameter>\n"
                  "<parameter=days>\n2\n</parameter>\n</function>\n"),
            weather);
  EXPECT_EQ(parse("<function=w>\n<parameter=code>\nif a < b:\n  x()\n\n</parameter>\n</function>"),
            (Calls{{"w", R"({"code":"if a < b:\n  x()\n"})"}}));
  EXPECT_EQ(parse("<function=a></function><function=b></function>").size(), 2U);
}

TEST(ToolCall, TheToolsTellTextsFromNumbers) {
  const std::string tags = "<function=by_zip><parameter=zip>01234</parameter></function>";
  const std::string keys = "by_zip\n<arg_key>zip</arg_key>\n<arg_value>50667</arg_value>";
  EXPECT_EQ(parse(tags, zip_tool()), (Calls{{"by_zip", R"({"zip":"01234"})"}}));
  EXPECT_EQ(parse(keys, zip_tool()), (Calls{{"by_zip", R"({"zip":"50667"})"}}));
  EXPECT_EQ(parse(keys), (Calls{{"by_zip", R"({"zip":50667})"}}));
  EXPECT_EQ(parse("by_zip", zip_tool()), (Calls{{"by_zip", "{}"}}));
  EXPECT_EQ(parse("by_zip"), Calls());
}

TEST(ToolCall, BareKeysOfGemma) {
  EXPECT_EQ(parse("call:get_weather{city:<|\"|>Köln<|\"|>,days:2}"), weather);
  EXPECT_EQ(parse("call:now{}"), (Calls{{"now", "{}"}}));
  EXPECT_EQ(parse("call:f{a:{b:[true,<|\"|>x, {y}: \"z\"<|\"|>,null]},<|\"|>c d<|\"|>:-1.5}"),
            (Calls{{"f", R"({"a":{"b":[true,"x, {y}: \"z\"",null]},"c d":-1.5})"}}));
  for (const char* text : {"call:f", "call:f{", "call:f{a}", "call:f{a:}", "call:f{a:1}x",
                           "call:f{a:1 b:2}", "call:f{a:<|\"|>x}", "call:{}", "call:f{a:[1}"}) {
    EXPECT_EQ(parse(text), Calls()) << text;
  }
  EXPECT_EQ(parse("call:f{a:" + std::string(100'000, '[')), Calls());
}

TEST(ToolCall, SeparatorsOfDeepSeek) {
  EXPECT_EQ(parse("<｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{\"city\": \"Köln\", \"days\": 2}"
                  "<｜tool▁call▁end｜>"),
            weather);
  EXPECT_EQ(parse("<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n"
                  "{\"city\": \"Köln\", \"days\": 2}\n```<｜tool▁call▁end｜>\n"
                  "<｜tool▁call▁begin｜>function<｜tool▁sep｜>b\n```json\n{}\n```"
                  "<｜tool▁call▁end｜>"),
            (Calls{weather[0], {"b", "{}"}}));
}

TEST(ToolCall, ChannelsOfGptOss) {
  const std::string arguments = "<|message|>{\"city\": \"Köln\", \"days\": 2}";
  EXPECT_EQ(parse("commentary to=functions.get_weather <|constrain|>json" + arguments), weather);
  EXPECT_EQ(parse("assistant to=functions.get_weather<|channel|>commentary json" + arguments),
            weather);
  EXPECT_EQ(parse("commentary to=browser.open<|message|>{}"), (Calls{{"browser.open", "{}"}}));
}

TEST(ToolCall, WhatHasNoFormIsNoCall) {
  for (const char* text :
       {"",
        " ",
        "[]",
        "{",
        "{}",
        "[1]",
        R"({"name":5,"arguments":{}})",
        R"({"name":"a b","arguments":{}})",
        R"({"name":"a","arguments":[1]})",
        R"({"name":"a","arguments":"no object"})",
        R"({"name":"a","arguments":{}} and more)",
        R"({"name":"a","arguments":{"k":1,"k":2}})",
        "print(\"hello\")",
        "f[ARGS]",
        "f.call(a=)",
        "f.call(a=1",
        "f.call(\"x\")",
        "<function=f>",
        "<function=f></function> and more",
        "<function=f><parameter=a>1</function>",
        "<function=f><parameter=a>1</parameter><parameter=a>2</parameter></function>",
        "f<arg_key>a</arg_key>",
        "<｜tool▁call▁begin｜>f<｜tool▁sep｜>{}",
        "<｜tool▁call▁begin｜>f<｜tool▁sep｜>no<｜tool▁call▁end｜>",
        "commentary<|message|>{}",
        "commentary to=functions.f<|message|>print(1)"}) {
    EXPECT_EQ(parse(text), Calls()) << text;
  }
}

TEST(ToolCall, AWholeAnswerMayBeACall) {
  EXPECT_EQ(parse_bare_tool_calls(R"({"name": "f", "parameters": {"a": 1}})"),
            (Calls{{"f", R"({"a":1})"}}));
  EXPECT_EQ(parse_bare_tool_calls(R"({"name": "Anna"})"), Calls());
  EXPECT_EQ(parse_bare_tool_calls(R"(Call {"name": "f", "parameters": {}})"), Calls());
  EXPECT_TRUE(may_be_bare_tool_call(" \n"));
  EXPECT_TRUE(may_be_bare_tool_call(" {\"na"));
  EXPECT_FALSE(may_be_bare_tool_call("The"));
}

TEST(ToolCall, IdsHaveNineLettersAndDigitsAndDiffer) {
  std::set<std::string> ids;
  for (std::uint32_t choice = 0; choice < 4; ++choice) {
    for (std::size_t number = 0; number < 4; ++number) {
      ids.insert(tool_call_id("job", choice, number));
    }
  }
  EXPECT_EQ(ids.size(), 16U);
  for (const std::string& id : ids) {
    EXPECT_EQ(id.size(), 9U);
    EXPECT_TRUE(std::ranges::all_of(id, [](unsigned char c) { return std::isalnum(c); })) << id;
  }
  EXPECT_EQ(tool_call_id("job", 1, 2), tool_call_id("job", 1, 2));
}

}  // namespace
}  // namespace millrace::openai
