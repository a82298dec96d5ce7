#include "schemas/openai/chunks.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "schemas/openai/sent_text.hpp"

namespace millrace::openai {
namespace {

using nlohmann::json;

json read(const std::vector<std::string>& events) {
  json out = json::array();
  for (const std::string& event : events) out.push_back(json::parse(event));
  return out;
}

PartialEntry partial_of(std::uint32_t first, Tokens tokens, const std::string& text,
                        std::uint32_t attempt = 1) {
  PartialEntry entry;
  entry.job = "j";
  entry.attempt = attempt;
  entry.partial.first_token = first;
  entry.partial.tokens = std::move(tokens);
  entry.partial.text = text;
  return entry;
}

JobResult result_of(const std::string& text, Tokens tokens, const std::string& job = "j") {
  JobResult result;
  result.job = job;
  GenerationResult& generation = result.result.emplace();
  Choice& choice = generation.choices.emplace_back();
  choice.text = text;
  choice.tokens = std::move(tokens);
  choice.finish_reason = FinishReason::length;
  generation.usage.prompt_tokens = 5;
  generation.usage.completion_tokens = 2;
  generation.effective.engine.fingerprint = "f00d";
  return result;
}

Request request_of(Endpoint endpoint) {
  Request request;
  request.form.endpoint = endpoint;
  request.form.stream = true;
  request.model = "m";
  request.jobs.resize(1);
  return request;
}

const std::string ids[] = {"j"};

// The texts of all events, joined.
std::string text_of(const json& events) {
  std::string out;
  for (const json& event : events) {
    for (const json& choice : event["choices"]) {
      out += choice.contains("delta") ? choice["delta"].value("content", "")
                                      : choice["text"].get<std::string>();
    }
  }
  return out;
}

TEST(Chunks, AChatBeginsWithItsRoleAndEndsWithItsReason) {
  Chunks chunks(request_of(Endpoint::chat), ids, {.created_s = 77});
  json events = read(chunks.partial(partial_of(0, {1}, "he")));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0],
            (json{{"id", "chatcmpl-j"},
                  {"object", "chat.completion.chunk"},
                  {"created", 77},
                  {"model", "m"},
                  {"system_fingerprint", nullptr},
                  {"choices", json::array({{{"index", 0},
                                            {"delta", {{"role", "assistant"}, {"content", ""}}},
                                            {"logprobs", nullptr},
                                            {"finish_reason", nullptr}}})}}));
  EXPECT_EQ(events[1]["choices"][0]["delta"], (json{{"content", "he"}}));
  EXPECT_FALSE(chunks.ended());
  events = read(chunks.end(result_of("hello", {1, 2, 3})));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["choices"][0]["delta"], (json{{"content", "llo"}}));
  EXPECT_EQ(events[1]["choices"][0]["delta"], json::object());
  EXPECT_EQ(events[1]["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(events[1]["system_fingerprint"], "f00d");
  EXPECT_TRUE(chunks.ended());
  EXPECT_FALSE(chunks.failed());
}

TEST(Chunks, ACompletionHasTextsAndNoRole) {
  Chunks chunks(request_of(Endpoint::completion), ids, {.model = "real"});
  const json events = read(chunks.partial(partial_of(0, {1}, "he")));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["id"], "cmpl-j");
  EXPECT_EQ(events[0]["object"], "text_completion");
  EXPECT_EQ(events[0]["model"], "real");
  EXPECT_EQ(
      events[0]["choices"],
      json::array(
          {{{"index", 0}, {"text", "he"}, {"logprobs", nullptr}, {"finish_reason", nullptr}}}));
}

TEST(Chunks, TheUsageComesLastWhereItIsAskedFor) {
  Request request = request_of(Endpoint::chat);
  request.form.include_usage = true;
  Chunks chunks(request, ids, {});
  const json events = read(chunks.end(result_of("x", {1})));
  ASSERT_EQ(events.size(), 4U);
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(events[i].at("usage").is_null());
  EXPECT_EQ(events[3]["choices"], json::array());
  EXPECT_EQ(events[3]["usage"]["total_tokens"], 7);
}

TEST(Chunks, TheLastEventHasTheWarningsOfAllJobs) {
  const std::string two[] = {"j", "k"};
  for (const bool usage : {false, true}) {
    Request request = request_of(Endpoint::completion);
    request.form.include_usage = usage;
    request.jobs.resize(2);
    Chunks chunks(request, two, {});
    JobResult result = result_of("x", {1});
    result.warnings = {"field x"};
    json events = read(chunks.end(result));
    result = result_of("y", {1}, "k");
    result.warnings = {"field x", "field y"};
    for (const json& event : read(chunks.end(result))) events.push_back(event);
    const json last = events.back();
    EXPECT_EQ(last["millrace"], (json{{"warnings", {"field x", "field y"}}})) << usage;
    EXPECT_EQ(last["choices"].empty(), usage);
    events.erase(events.size() - 1);
    for (const json& event : events) EXPECT_FALSE(event.contains("millrace")) << event;
  }
}

TEST(Chunks, WhatIsLostOrToldTwiceIsSentOnce) {
  Chunks chunks(request_of(Endpoint::completion), ids, {});
  std::string text = text_of(read(chunks.partial(partial_of(0, {1}, "a"))));
  EXPECT_TRUE(chunks.partial(partial_of(0, {1}, "a")).empty());
  EXPECT_TRUE(chunks.partial(partial_of(2, {3}, "c")).empty());  // b is missing
  EXPECT_TRUE(chunks.partial(partial_of(3, {4}, "d")).empty());
  text += text_of(read(chunks.end(result_of("abcd", {1, 2, 3, 4}))));
  EXPECT_EQ(text, "abcd");
  EXPECT_TRUE(chunks.partial(partial_of(0, {1}, "a")).empty());
  EXPECT_TRUE(chunks.end(result_of("abcd", {1, 2, 3, 4})).empty());
}

TEST(Chunks, AnotherAttemptGoesOnWhereTheTextWas) {
  Chunks chunks(request_of(Endpoint::completion), ids, {});
  std::string text = text_of(read(chunks.partial(partial_of(0, {1, 2}, "ab"))));
  EXPECT_TRUE(chunks.partial(partial_of(0, {1}, "a", 2)).empty());
  EXPECT_TRUE(chunks.partial(partial_of(2, {3}, "c", 1)).empty());  // of the first attempt
  text += text_of(read(chunks.partial(partial_of(1, {2, 3}, "bc", 2))));
  EXPECT_EQ(text, "abc");
  EXPECT_EQ(text_of(read(chunks.end(result_of("abcd", {1, 2, 3, 4})))), "d");
}

TEST(Chunks, AnAttemptThatWritesAnotherTextIsAnError) {
  for (const char* other : {"aX", "a"}) {
    Chunks chunks(request_of(Endpoint::completion), ids, {});
    chunks.partial(partial_of(0, {1, 2}, "ab"));
    const json events = read(chunks.end(result_of(other, {1, 9})));
    ASSERT_EQ(events.size(), 1U);
    EXPECT_EQ(events[0]["error"]["code"], "engine_died");
    EXPECT_TRUE(chunks.failed() && chunks.ended());
  }
}

TEST(Chunks, AFailedJobIsTheLastEvent) {
  Chunks chunks(request_of(Endpoint::chat), ids, {});
  JobResult result;
  result.job = "j";
  result.state = JobState::failed;
  result.error = Error{Code::context_exceeded, "too long", "shorten it"};
  const json events = read(chunks.end(result));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["error"]["code"], "context_exceeded");
  EXPECT_TRUE(chunks.failed());
}

TEST(Chunks, LogprobsComeTogetherBeforeTheEnd) {
  for (const Endpoint endpoint : {Endpoint::chat, Endpoint::completion}) {
    Chunks chunks(request_of(endpoint), ids, {});
    chunks.partial(partial_of(0, {1}, "a"));
    JobResult result = result_of("ab", {1, 2});
    TokenLogprobs& logprobs = result.result->choices[0].logprobs.emplace();
    logprobs.token = {-0.5F, -0.25F};
    const json events = read(chunks.end(result));
    ASSERT_EQ(events.size(), 3U);
    EXPECT_TRUE(events[0]["choices"][0]["logprobs"].is_null());
    const json& told = events[1]["choices"][0]["logprobs"];
    if (endpoint == Endpoint::chat) {
      EXPECT_EQ(told["content"][1]["logprob"], -0.25);
    } else {
      EXPECT_EQ(told["token_logprobs"], (json{-0.5, -0.25}));
    }
    EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "length");
  }
}

TEST(Chunks, ChoicesOfSeveralPromptsHaveIndicesOfTheirOwn) {
  Request request = request_of(Endpoint::completion);
  request.form.n = 2;
  request.form.include_usage = true;
  request.jobs.resize(2);
  const std::string both[] = {"r-0", "r-1"};
  Chunks chunks(request, both, {});
  PartialEntry entry = partial_of(0, {1}, "x");
  entry.job = "r-1";
  entry.partial.choice = 1;
  EXPECT_EQ(read(chunks.partial(entry))[0]["choices"][0]["index"], 3);
  entry.partial.choice = 2;
  EXPECT_TRUE(chunks.partial(entry).empty());
  chunks.end(result_of("y", {1}, "r-0"));
  EXPECT_FALSE(chunks.ended());
  JobResult second = result_of("z", {1}, "r-1");
  second.result->choices.push_back(result_of("xx", {1, 2}).result->choices[0]);
  second.result->choices[1].index = 1;
  const json events = read(chunks.end(second));
  EXPECT_EQ(text_of(events), "zx");
  EXPECT_EQ(events.back()["usage"]["prompt_tokens"], 10);
}

TEST(Chunks, AnEchoStandsFirst) {
  Request request = request_of(Endpoint::completion);
  request.form.echo = true;
  request.jobs[0].echo = Prompt("once ");
  Chunks chunks(request, ids, {});
  std::string text = text_of(read(chunks.partial(partial_of(0, {1}, "a"))));
  EXPECT_EQ(text, "once a");
  EXPECT_TRUE(chunks.partial(partial_of(0, {1}, "a", 2)).empty());
  EXPECT_EQ(text_of(read(chunks.end(result_of("ab", {1, 2})))), "b");
}

TEST(Chunks, TokenIdsComeWithTheirTexts) {
  Request request = request_of(Endpoint::chat);
  request.form.token_ids = true;
  Chunks chunks(request, ids, {});
  json events = read(chunks.partial(partial_of(0, {1, 2}, "a")));
  EXPECT_EQ(events.back()["choices"][0]["token_ids"], (json{1, 2}));
  events = read(chunks.partial(partial_of(0, {1, 2, 3}, "a", 2)));
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["choices"][0]["token_ids"], (json{3}));
  events = read(chunks.end(result_of("a", {1, 2, 3, 4})));
  EXPECT_EQ(events[0]["choices"][0]["token_ids"], (json{4}));
}

TEST(Chunks, ReasoningHasPiecesOfItsOwn) {
  Chunks chunks(request_of(Endpoint::chat), ids, {});
  PartialEntry entry = partial_of(0, {1}, "");
  entry.partial.reasoning = "wh";
  EXPECT_EQ(read(chunks.partial(entry)).back()["choices"][0]["delta"],
            (json{{"reasoning_content", "wh"}}));
  JobResult result = result_of("x", {1, 2});
  result.result->choices[0].reasoning = "why";
  EXPECT_EQ(read(chunks.end(result))[0]["choices"][0]["delta"],
            (json{{"reasoning_content", "y"}, {"content", "x"}}));
}

const std::string first_call = R"({"name": "f", "arguments": {"a": 1}})";

TEST(Chunks, ToolCallsComeWholeAndOnce) {
  Request request = request_of(Endpoint::chat);
  request.tools.given = true;
  Chunks chunks(request, ids, {});
  PartialEntry entry = partial_of(0, {1}, "See: ");
  entry.partial.tool_calls = {first_call};
  json events = read(chunks.partial(entry));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[1]["choices"][0]["delta"], (json{{"content", "See: "}}));
  EXPECT_EQ(events[2]["choices"][0]["delta"],
            (json{{"tool_calls",
                   {{{"index", 0},
                     {"id", tool_call_id("j", 0, 0)},
                     {"type", "function"},
                     {"function", {{"name", "f"}, {"arguments", R"({"a":1})"}}}}}}}));
  entry.attempt = 2;
  EXPECT_TRUE(chunks.partial(entry).empty());
  JobResult result = result_of("See: ", {1, 2});
  result.result->choices[0].finish_reason = FinishReason::stop;
  result.result->choices[0].tool_calls = {first_call, R"({"name": "g"})", "no form"};
  events = read(chunks.end(result));
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["tool_calls"][0]["index"], 1);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["tool_calls"][0]["id"], tool_call_id("j", 0, 1));
  EXPECT_EQ(events[1]["choices"][0]["delta"], (json{{"content", "no form"}}));
  EXPECT_EQ(events[2]["choices"][0]["finish_reason"], "tool_calls");
}

TEST(Chunks, AnAttemptThatCallsAnotherToolIsAnError) {
  Chunks chunks(request_of(Endpoint::chat), ids, {});
  PartialEntry entry = partial_of(0, {1}, "");
  entry.partial.tool_calls = {first_call};
  chunks.partial(entry);
  EXPECT_EQ(read(chunks.end(result_of("", {1})))[0]["error"]["code"], "engine_died");
}

TEST(Chunks, ATextThatMayBeACallIsHeldBack) {
  Request request = request_of(Endpoint::chat);
  request.tools.given = true;
  const std::string call = R"({"name": "f", "parameters": {}})";
  Chunks called(request, ids, {});
  EXPECT_EQ(read(called.partial(partial_of(0, {1}, R"({"name": )"))).size(), 1U);
  json events = read(called.end(result_of(call, {1, 2})));
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0]["choices"][0]["delta"]["tool_calls"][0]["function"]["name"], "f");
  Chunks text(request, ids, {});
  EXPECT_EQ(text_of(read(text.partial(partial_of(0, {1}, " ")))), "");
  EXPECT_EQ(text_of(read(text.partial(partial_of(0, {1}, " ", 2)))), "");
  EXPECT_EQ(text_of(read(text.partial(partial_of(1, {2}, "The", 2)))), " The");
  Chunks object(request, ids, {});
  EXPECT_EQ(text_of(read(object.partial(partial_of(0, {1}, R"({"a)")))), "");
  EXPECT_EQ(text_of(read(object.end(result_of(R"({"a": 1})", {1, 2})))), R"({"a": 1})");
  Chunks plain(request_of(Endpoint::chat), ids, {});
  EXPECT_EQ(text_of(read(plain.partial(partial_of(0, {1}, R"({"a)")))), R"({"a)");
}

TEST(SentText, GivesEachByteOnce) {
  SentText text;
  EXPECT_TRUE(text.empty() && text.is_whole());
  EXPECT_EQ(text.next("ab"), "ab");
  text.restart();
  EXPECT_FALSE(text.is_whole());
  EXPECT_EQ(text.next("a"), "");
  EXPECT_EQ(text.next("bcd"), "cd");
  EXPECT_TRUE(text.is_whole());
  text.restart();
  EXPECT_EQ(text.next("abx"), "");
  EXPECT_EQ(text.next("cde"), "");
  EXPECT_FALSE(text.is_whole());
}

}  // namespace
}  // namespace millrace::openai
