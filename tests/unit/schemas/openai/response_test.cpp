#include "schemas/openai/response.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <tuple>

#include "schemas/codec.hpp"
#include "schemas/openai/notes.hpp"

namespace millrace::openai {
namespace {

using nlohmann::json;

Choice choice_of(std::uint32_t index, const std::string& text) {
  Choice choice;
  choice.index = index;
  choice.text = text;
  return choice;
}

JobResult sample(const std::string& job, const std::string& text) {
  JobResult result;
  result.job = job;
  result.ended_us = 1'700'000'001'500'000;
  GenerationResult& generation = result.result.emplace();
  generation.choices.push_back(choice_of(0, text));
  generation.choices[0].tokens = {10, 11};
  generation.usage = {.prompt_tokens = 5, .cached_tokens = 4, .completion_tokens = 2};
  generation.effective.engine.model = "real";
  generation.effective.engine.fingerprint = "f00d";
  return result;
}

std::optional<std::string> bytes_of(TokenId id) {
  if (id == 300) return std::nullopt;
  return std::string(1, static_cast<char>('a' + id));
}

std::vector<std::string> keys(const json& object) {
  std::vector<std::string> out;
  for (const auto& [name, value] : object.items()) out.push_back(name);
  return out;
}
using Names = std::vector<std::string>;  // sorted, as nlohmann's objects are

TEST(OpenAIResponse, AChatCompletionHasOpenAIsKeys) {
  Request request;
  request.jobs.resize(1);
  const JobResult results[] = {sample("j", "hé")};
  const json body = json::parse(response_body(request, results, {.created_s = 77}));
  EXPECT_EQ(keys(body),
            (Names{"choices", "created", "id", "model", "object", "system_fingerprint", "usage"}));
  EXPECT_EQ(body["id"], "chatcmpl-j");
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["created"], 77);
  EXPECT_EQ(body["model"], "real");
  EXPECT_EQ(body["system_fingerprint"], "f00d");
  EXPECT_EQ(
      body["choices"],
      json::array({{{"index", 0},
                    {"message", {{"role", "assistant"}, {"content", "hé"}, {"refusal", nullptr}}},
                    {"logprobs", nullptr},
                    {"finish_reason", "stop"}}}));
  EXPECT_EQ(body["usage"], (json{{"prompt_tokens", 5},
                                 {"completion_tokens", 2},
                                 {"total_tokens", 7},
                                 {"prompt_tokens_details", {{"cached_tokens", 4}}},
                                 {"completion_tokens_details", {{"reasoning_tokens", 0}}}}));
}

TEST(OpenAIResponse, TokenIdsAndDetailsComeOnlyWhenAskedFor) {
  Request request;
  request.jobs.resize(1);
  const JobResult results[] = {sample("j", "x")};
  const auto body = [&](bool details) {
    return json::parse(response_body(request, results, {.details = details}));
  };
  EXPECT_EQ(body(true)["millrace"]["job"], "j");
  EXPECT_EQ(body(false)["created"], 1'700'000'001);
  request.form.token_ids = true;
  EXPECT_EQ(body(false)["choices"][0]["token_ids"], (json{10, 11}));
  EXPECT_FALSE(body(false).contains("millrace"));
}

TEST(OpenAIResponse, ChoicesOfSeveralPromptsFollowEachOther) {
  Request request;
  request.form = {.endpoint = Endpoint::completion, .n = 2};
  request.jobs.resize(2);
  JobResult first = sample("r-0", "a"), second = sample("r-1", "c");
  first.result->choices.push_back(choice_of(1, "b"));
  second.result->choices.push_back(choice_of(1, "d"));
  second.result->choices[0].finish_reason = FinishReason::length;
  const JobResult results[] = {first, second};
  const json body = json::parse(response_body(request, results, {}));
  EXPECT_EQ(body["id"], "cmpl-r-0");
  EXPECT_EQ(body["object"], "text_completion");
  std::string order;
  for (const json& choice : body["choices"]) {
    order += choice["text"].get<std::string>() + std::to_string(choice["index"].get<int>());
  }
  EXPECT_EQ(order, "a0b1c2d3");
  EXPECT_EQ(keys(body["choices"][2]), (Names{"finish_reason", "index", "logprobs", "text"}));
  EXPECT_EQ(body["choices"][2]["finish_reason"], "length");
  EXPECT_EQ(body["usage"]["total_tokens"], 14);
}

TEST(OpenAIResponse, WarningsComeOnceWhereThereAreAny) {
  Request request;
  request.form.endpoint = Endpoint::completion;
  request.jobs.resize(2);
  JobResult results[] = {sample("r-0", "a"), sample("r-1", "b")};
  const auto body = [&] { return json::parse(response_body(request, results, {})); };
  EXPECT_FALSE(body().contains("millrace"));
  results[0].warnings = {"field x", "field y"};
  results[1].warnings = {"field y", "field z"};
  EXPECT_EQ(body()["millrace"], (json{{"warnings", {"field x", "field y", "field z"}}}));
}

TEST(OpenAIResponse, AnEchoStandsBeforeTheTextAndItsLogprobs) {
  Request request;
  request.form = {.endpoint = Endpoint::completion, .echo = true, .echo_logprobs = true};
  request.jobs.resize(1);
  request.jobs[0].echo = Prompt("ab");
  JobResult result = sample("j", "kl");
  GenerationResult& generation = *result.result;
  generation.prompt = Tokens{0, 1};
  generation.prompt_logprobs = TokenLogprobs{.top = 1,
                                             .token = {std::nanf(""), -0.5F},
                                             .top_ids = {0, 2},
                                             .top_logprobs = {std::nanf(""), -0.25F}};
  generation.choices[0].logprobs = TokenLogprobs{
      .top = 1, .token = {-1.0F, -2.0F}, .top_ids = {10, 11}, .top_logprobs = {-1.0F, -2.0F}};
  const auto choice = [&] {
    const JobResult results[] = {result};
    return json::parse(response_body(request, results, {.token_bytes = bytes_of}))["choices"][0];
  };
  const json both = choice();
  EXPECT_EQ(both["text"], "abkl");
  EXPECT_EQ(both["logprobs"]["tokens"], (json{"a", "b", "k", "l"}));
  EXPECT_EQ(both["logprobs"]["token_logprobs"], (json{nullptr, -0.5, -1.0, -2.0}));
  EXPECT_EQ(both["logprobs"]["text_offset"], (json{0, 1, 2, 3}));
  EXPECT_EQ(both["logprobs"]["top_logprobs"][0], nullptr);
  EXPECT_EQ(both["logprobs"]["top_logprobs"][1], (json{{"c", -0.25}, {"b", -0.5}}));
  EXPECT_EQ(both["logprobs"]["top_logprobs"][2], (json{{"k", -1.0}}));
  EXPECT_FALSE(both.contains("token_ids"));
  request.form.token_ids = true;  // of what was sampled, as in a stream
  EXPECT_EQ(choice()["token_ids"], (json{10, 11}));
  EXPECT_EQ(choice()["logprobs"], both["logprobs"]);
  generation.choices.clear();  // a job that only scored the prompt
  const json scored = choice();
  EXPECT_EQ(scored["token_ids"], json::array());
  EXPECT_EQ(scored["text"], "ab");
  EXPECT_EQ(scored["finish_reason"], "length");
  EXPECT_EQ(scored["logprobs"]["token_logprobs"], (json{nullptr, -0.5}));
  request.form.echo_logprobs = false;
  EXPECT_EQ(choice()["logprobs"], nullptr);
  request.jobs[0].echo = Prompt(Tokens{1, 300, 2});
  EXPECT_EQ(choice()["text"], "btoken_id:300c");
}

TEST(OpenAIResponse, ToolCallsAreParsedAndKeptAsTheyWereWritten) {
  Request request;
  request.jobs.resize(1);
  request.tools.given = true;
  JobResult result = sample("j", "\n");
  Choice& choice = result.result->choices[0];
  choice.tool_calls = {R"({"name": "f", "arguments": {"a": 1}})", R"({"name": "g"})"};
  const auto written = [&](bool details) {
    const JobResult results[] = {result};
    return json::parse(response_body(request, results, {.details = details}))["choices"][0];
  };
  const json body = written(true);
  const json& calls = body["message"]["tool_calls"];
  ASSERT_EQ(calls.size(), 2U);
  EXPECT_EQ(calls[0], (json{{"id", tool_call_id("j", 0, 0)},
                            {"type", "function"},
                            {"function", {{"name", "f"}, {"arguments", R"({"a":1})"}}}}));
  EXPECT_EQ(calls[1]["id"], tool_call_id("j", 0, 1));
  EXPECT_TRUE(body["message"]["content"].is_null());
  EXPECT_EQ(body["finish_reason"], "tool_calls");
  EXPECT_EQ(body["tool_calls"][1], R"({"name": "g"})");
  EXPECT_FALSE(written(false).contains("tool_calls"));
  choice.finish_reason = FinishReason::length;
  EXPECT_EQ(written(false)["finish_reason"], "length");
}

TEST(OpenAIResponse, ACallInNoKnownFormStaysContent) {
  JobResult result = sample("j", "Let me see. ");
  result.result->choices[0].tool_calls = {R"({"name": "f", "argum)"};
  const json choice = json::parse(response_body(Endpoint::chat, result, {}))["choices"][0];
  EXPECT_EQ(choice["message"], (json{{"role", "assistant"},
                                     {"content", R"(Let me see. {"name": "f", "argum)"},
                                     {"refusal", nullptr}}));
  EXPECT_EQ(choice["finish_reason"], "stop");
}

TEST(OpenAIResponse, AWholeAnswerIsACallOnlyWhereThereAreTools) {
  JobResult result = sample("j", R"({"name": "f", "parameters": {}})");
  const auto message = [&] {
    return json::parse(response_body(Endpoint::chat, result, {}))["choices"][0]["message"];
  };
  EXPECT_FALSE(message().contains("tool_calls"));
  result.metadata[std::string(tools_key)] = "shown";
  EXPECT_EQ(message()["tool_calls"][0]["function"]["name"], "f");
  EXPECT_TRUE(message()["content"].is_null());
}

// A batch file, `run` and `results` have no request any more, but the note of the job.
TEST(OpenAIResponse, CallsThatTheirToolsTellAreReadWithoutTheRequest) {
  const std::string tools = R"("tools":[{"type":"function","function":{"name":"f","parameters":)"
                            R"({"properties":{"zip":{"type":"string"},"days":{}}}}},)"
                            R"({"type":"function","function":{"name":"get_time"}}])";
  const auto request = parse_request(
      Endpoint::chat, R"({"messages":[{"role":"user","content":"x"}],)" + tools + "}", {});
  ASSERT_TRUE(request) << request.error().text();
  JobResult result = sample("j", "");
  result.metadata = decode_job(request->jobs[0].body)->job.metadata;
  for (const auto& [written, name, arguments] :
       {std::tuple{"get_time", "get_time", "{}"},
        {"<function=f><parameter=zip>\n12\n</parameter><parameter=days>\n2\n</parameter></"
         "function>",
         "f", R"({"zip":"12","days":2})"}}) {
    result.result->choices[0].tool_calls = {written};
    const json body = json::parse(response_body(Endpoint::chat, result, {}));
    const json& message = body["choices"][0]["message"];
    EXPECT_TRUE(message["content"].is_null()) << message;
    EXPECT_EQ(message["tool_calls"][0]["function"],
              (json{{"name", name}, {"arguments", arguments}}));
    EXPECT_EQ(json::parse(response_body(*request, std::span(&result, 1), {})), body);
  }
}

TEST(OpenAIResponse, CallsWhoseToolsAreNotKnownHaveAWarning) {
  JobResult result = sample("j", "");
  result.metadata[std::string(tools_key)] = "shown";
  const auto body = [&] { return json::parse(response_body(Endpoint::chat, result, {})); };
  EXPECT_FALSE(body().contains("millrace"));
  result.result->choices[0].tool_calls = {R"({"name": "f", "arguments": {}})"};
  EXPECT_EQ(body()["millrace"]["warnings"].size(), 1U);
}

TEST(OpenAIResponse, ReasoningStandsBesideTheText) {
  JobResult result = sample("j", "x");
  result.result->choices[0].reasoning = "why";
  const auto choice = [&](Endpoint endpoint) {
    return json::parse(response_body(endpoint, result, {}))["choices"][0];
  };
  EXPECT_EQ(choice(Endpoint::chat)["message"]["reasoning_content"], "why");
  EXPECT_EQ(choice(Endpoint::completion)["reasoning"], "why");
}

}  // namespace
}  // namespace millrace::openai
