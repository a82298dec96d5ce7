#include "schemas/openai/error_body.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "schemas/openai/request.hpp"

namespace millrace::openai {
namespace {

using nlohmann::json;

TEST(ErrorBody, HasOpenAIsKeys) {
  const Error error{Code::invalid_value, "top_p: 0 is too small", "give more"};
  EXPECT_EQ(json::parse(error_body(error)), (json{{"error",
                                                   {{"message", "top_p: 0 is too small. Give more"},
                                                    {"type", "invalid_request_error"},
                                                    {"param", "top_p"},
                                                    {"code", "invalid_value"},
                                                    {"hint", "give more"}}}}));
  const json bare = json::parse(error_body({Code::internal, "oh", ""}));
  EXPECT_EQ(bare["error"]["type"], "server_error");
  EXPECT_TRUE(bare["error"]["param"].is_null());
  EXPECT_EQ(bare["error"]["hint"], code_advice(Code::internal));
}

TEST(ErrorBody, AnswersTellTheHintInTheMessageToo) {
  const auto told = [](std::string message, std::string hint) {
    return whole_message({Code::invalid_value, std::move(message), std::move(hint)});
  };
  EXPECT_EQ(told("it is wrong", "leave it out"), "it is wrong. Leave it out");
  EXPECT_EQ(told("it is wrong!", "correct it"), "it is wrong! Correct it");
  EXPECT_EQ(told("it is wrong.", "update"), "it is wrong. Update");
  for (const std::string hint :
       {"--keys says who may", "max_tokens is too large", "prompt is needed", "millrace keys ls",
        "millrace-engine is needed", "/v1/models lists them", "`a b` does it", "7", "\u00e4"}) {
    EXPECT_EQ(told("it is wrong", hint), "it is wrong. " + hint);
  }
  EXPECT_EQ(told("", "start it"), "start it");
  EXPECT_EQ(whole_message({Code::internal, "oh", ""}).substr(0, 4), "oh. ");
}

// A line of results has the hint beside the message, and so its message has none.
TEST(ErrorBody, LinesOfResultsTellTheHintOnce) {
  std::string line;
  JsonWriter writer(line);
  write_error_body(writer, {Code::invalid_value, "it is wrong", "leave it out"});
  const auto told = json::parse(line)["error"];
  EXPECT_EQ(told["message"], "it is wrong");
  EXPECT_EQ(told["hint"], "leave it out");
}

TEST(ErrorBody, TypesFollowTheStatus) {
  const auto type = [](const std::string& body) { return json::parse(body)["error"]["type"]; };
  EXPECT_EQ(type(error_body({Code::overloaded, "full", ""})), "rate_limit_error");
  EXPECT_EQ(type(error_body({Code::unknown_model, "no", ""})), "not_found_error");
  EXPECT_EQ(type(error_body({Code::unauthorized, "no", ""})), "permission_error");
  EXPECT_EQ(type(error_body({Code::unauthorized, "no token", ""}, 401)), "authentication_error");
}

// What a parser of requests refuses, and the field that its error names.
TEST(ErrorBody, NamesTheFieldOfEachRefusal) {
  struct Case {
    Endpoint endpoint;
    const char *fields, *param;
  };
  constexpr auto chat = Endpoint::chat, completion = Endpoint::completion;
  const auto cases = std::to_array<Case>({
      {chat, R"("model":"m")", "messages"},
      {chat, R"("messages":[],"prompt":"p")", "prompt"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"temperature":"hot")", "temperature"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"n":0)", "n"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"stop":[""])", "stop[0]"},
      {chat, R"("messages":[{"role":"user","content":5}])", "messages[0].content"},
      {chat, R"("messages":[{"content":"x"}])", "messages[0].role"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"stream":"yes")", "stream"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"stream_options":{})", "stream_options"},
      {chat,
       R"("messages":[{"role":"user","content":"x"}],"stream":true,)"
       R"("stream_options":{"include_usage":1})",
       "stream_options.include_usage"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"response_format":{"type":"x"})",
       "response_format"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"tool_choice":"required")",
       "tool_choice"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"top_logprobs":3)", "top_logprobs"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"colour":1,"strict":true)", "colour"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"metadata":{"k":1})", "metadata.k"},
      {chat, R"("messages":[{"role":"user","content":"x"}],"custom_id":"c")", "custom_id"},
      {completion, R"("model":"m")", "prompt"},
      {completion, R"("prompt":[1,-2])", "prompt[1]"},
      {completion, R"("prompt":["a",5])", "prompt[1]"},
      {completion, R"("prompt":"p","suffix":"s")", "suffix"},
      {completion, R"("prompt":"p","guided_regex":"a+")", "guided_regex"},
      {completion, R"("prompt":"p","echo":1)", "echo"},
  });
  for (const Case& c : cases) {
    const auto parsed = parse_request(c.endpoint, std::string("{") + c.fields + "}", {});
    ASSERT_FALSE(parsed.has_value()) << c.fields;
    EXPECT_EQ(error_param(parsed.error()), c.param) << parsed.error().text();
    EXPECT_FALSE(parsed.error().hint.empty()) << parsed.error().text();
  }
}

TEST(ErrorBody, WhatNoFieldCausesNamesNone) {
  EXPECT_EQ(error_param({Code::unknown_model, "no engine serves \"x\"", ""}), "model");
  EXPECT_EQ(error_param({Code::template_error, "the template failed", ""}), "messages");
  EXPECT_EQ(error_param({Code::overloaded, "the queue is full", ""}), "");
  EXPECT_EQ(error_param({Code::internal, "model lost", ""}), "");
}

}  // namespace
}  // namespace millrace::openai
