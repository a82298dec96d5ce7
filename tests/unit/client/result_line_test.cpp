#include "client/lines/result_line.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "schemas/openai/notes.hpp"

namespace millrace::client {
namespace {

using nlohmann::json;

JobResult sample(const std::string& shape) {
  JobResult result;
  result.job = "4-0011223344556677";
  result.custom_id = "c";
  result.attempts = 2;
  result.ended_us = 1'700'000'001'500'000;
  if (!shape.empty()) {
    result.metadata[std::string(openai::shape_key)] = shape;
  }
  result.metadata["k"] = "v";
  GenerationResult& generation = result.result.emplace();
  Choice& choice = generation.choices.emplace_back();
  choice.text = "hé";
  choice.tokens = {10, 11};
  choice.finish_reason = FinishReason::stop;
  choice.stop_token = 11;
  choice.logprobs = TokenLogprobs{.top = 2,
                                  .token = {-0.1F, std::nanf("")},
                                  .top_ids = {10, 12, 11, 10},
                                  .top_logprobs = {-0.1F, -3.5F, -0.25F, -INFINITY}};
  generation.usage = {.prompt_tokens = 5, .cached_tokens = 0, .completion_tokens = 2};
  generation.effective.engine.model = "real";
  generation.effective.engine.fingerprint = "f00d";
  generation.effective.sampling.seed = 42;
  return result;
}

std::optional<std::string> bytes_of(TokenId id) {
  if (id == 10) {
    return "h";
  }
  if (id == 11) {
    return "\xC3";
  }
  return std::nullopt;
}

TEST(ResultLine, ChatCompletion) {
  const std::string text = result_line(sample("chat"), 4, {.token_bytes = bytes_of});
  ASSERT_TRUE(text.ends_with("\"error\":null}\n"));
  ASSERT_TRUE(text.starts_with("{\"id\":\"4-0011223344556677\""));
  const json line = json::parse(text);
  EXPECT_EQ(line["custom_id"], "c");
  EXPECT_EQ(line["response"]["status_code"], 200);
  EXPECT_EQ(line["response"]["request_id"], "4-0011223344556677");
  const json& body = line["response"]["body"];
  EXPECT_EQ(body["object"], "chat.completion");
  EXPECT_EQ(body["model"], "real");
  EXPECT_EQ(body["created"], 1'700'000'001);
  EXPECT_EQ(body["usage"]["total_tokens"], 7);
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["message"],
            (json{{"role", "assistant"}, {"content", "hé"}, {"refusal", nullptr}}));
  EXPECT_EQ(choice["finish_reason"], "stop");
  EXPECT_EQ(choice["stop_reason"], 11);
  EXPECT_EQ(choice["token_ids"], (json{10, 11}));
  const json& content = choice["logprobs"]["content"];
  EXPECT_EQ(content[0]["token"], "h");
  EXPECT_EQ(content[0]["bytes"], (json{104}));
  EXPECT_EQ(content[0]["top_logprobs"][1]["token"], "token_id:12");
  EXPECT_TRUE(content[0]["top_logprobs"][1]["bytes"].is_null());
  EXPECT_EQ(content[1]["bytes"], (json{195}));
  EXPECT_TRUE(content[1]["logprob"].is_null());
  EXPECT_TRUE(content[1]["top_logprobs"][1]["logprob"].is_null());
  EXPECT_EQ(body["millrace"]["attempts"], 2);
  EXPECT_EQ(body["millrace"]["effective"]["seed"], 42);
  EXPECT_EQ(body["millrace"]["fingerprint"], "f00d");
  EXPECT_EQ(body["millrace"]["metadata"], (json{{"k", "v"}}));
}

TEST(ResultLine, TextCompletion) {
  const json line = json::parse(result_line(sample("completion"), 4, {.token_bytes = bytes_of}));
  const json& body = line["response"]["body"];
  EXPECT_EQ(body["object"], "text_completion");
  const json& choice = body["choices"][0];
  EXPECT_EQ(choice["text"], "hé");
  EXPECT_EQ(choice["logprobs"]["tokens"], (json{"h", "\xEF\xBF\xBD"}));
  EXPECT_EQ(choice["logprobs"]["token_logprobs"][0], -0.1);
  EXPECT_EQ(choice["logprobs"]["top_logprobs"][0], (json{{"h", -0.1}, {"token_id:12", -3.5}}));
  EXPECT_EQ(choice["logprobs"]["text_offset"], (json{0, 1}));
}

TEST(ResultLine, ListedLogprobsInEachForm) {
  const auto choice = [](const char* shape) {
    JobResult result = sample(shape);
    TokenLogprobs& logprobs = *result.result->choices[0].logprobs;
    logprobs.listed =
        ListedLogprobs{.ids = {10, 300}, .logprobs = {-1.5F, -2.5F, -0.5F, -INFINITY}};
    const json line = json::parse(result_line(result, 4, {.token_bytes = bytes_of}));
    return line["response"]["body"]["choices"][0];
  };
  const json content = choice("chat")["logprobs"]["content"];
  EXPECT_EQ(content[0]["listed_logprobs"][1]["token_id"], 300);
  EXPECT_EQ(content[0]["listed_logprobs"][1]["logprob"], -2.5);
  EXPECT_EQ(content[1]["listed_logprobs"][0]["token"], "h");
  EXPECT_TRUE(content[1]["listed_logprobs"][1]["logprob"].is_null());
  EXPECT_EQ(choice("completion")["logprobs"]["listed_logprobs"][0],
            (json{{"token_id:10", -1.5}, {"token_id:300", -2.5}}));
  const json plain = choice("")["logprobs"];
  EXPECT_EQ(plain["listed_ids"], (json{10, 300}));
  EXPECT_EQ(plain["listed_logprobs"][2], -0.5);
}

TEST(ResultLine, PartsOfTheTextAndWhatEndedIt) {
  const auto choice = [](const char* shape) {
    JobResult result = sample(shape);
    Choice& c = result.result->choices[0];
    c.stop_token.reset();
    c.stop_sequence = Tokens{10, 11};
    c.reasoning = "why";
    c.tool_calls = {"{}", "f(1)"};
    c.reasoning_spans = Tokens{0, 1};
    c.tool_call_spans = Tokens{1, 2};
    result.result->usage.reasoning_tokens = 1;
    result.result->effective.markers = {{MarkedPart::reasoning, "<t>", "</t>", true}};
    const json body = json::parse(result_line(result, 4, {}))["response"]["body"];
    const json& millrace = body.contains("millrace") ? body["millrace"] : body;
    EXPECT_EQ(
        millrace["effective"]["markers"],
        (json{{{"part", "reasoning"}, {"open", "<t>"}, {"close", "</t>"}, {"at_start", true}}}));
    EXPECT_EQ(body["usage"]["completion_tokens_details"], (json{{"reasoning_tokens", 1}}));
    return body["choices"][0];
  };
  for (const char* shape : {"chat", "completion", ""}) {
    const json c = choice(shape);
    EXPECT_EQ(c["stop_reason"], (json{10, 11})) << shape;
    EXPECT_EQ(c["tool_calls"], (json{"{}", "f(1)"})) << shape;
    EXPECT_EQ(c["reasoning_spans"], (json{0, 1})) << shape;
    EXPECT_EQ(c["tool_call_spans"], (json{1, 2})) << shape;
    const bool chat = c.contains("message");
    EXPECT_EQ(chat, std::string_view(shape) == "chat");
    EXPECT_EQ(chat ? c["message"]["reasoning_content"] : c["reasoning"], "why") << shape;
  }
}

TEST(ResultLine, ShowsEditsThatDifferFromTheirDefaults) {
  JobResult result = sample("chat");
  const auto effective = [&] {
    return json::parse(result_line(result, 4, {}))["response"]["body"]["millrace"]["effective"];
  };
  EXPECT_FALSE(effective().contains("repetition_penalty"));
  EXPECT_EQ(effective()["typical_p"], 1);
  LogitEdits& edits = result.result->effective.edits;
  edits.bias = {{5, 1.0F}};
  edits.repetition = {1.5F, PenaltyScope::all, 64};
  edits.dry.breaker_ids = {198};
  const json told = effective();
  EXPECT_EQ(told["logit_bias"], (json::array({json::array({5, 1.0})})));
  EXPECT_EQ(told["repetition_penalty"], 1.5);
  EXPECT_FALSE(told.contains("repetition_penalty_scope"));
  EXPECT_FALSE(told.contains("dry_base"));
  EXPECT_EQ(told["repetition_penalty_window"], 64);
  EXPECT_EQ(told["dry_breaker_ids"], (json{198}));
}

TEST(ResultLine, PlainJobGetsTheResultMap) {
  const json line = json::parse(result_line(sample(""), 4, {}));
  const json& body = line["response"]["body"];
  EXPECT_EQ(body["job"], "4-0011223344556677");
  EXPECT_EQ(body["state"], "completed");
  EXPECT_EQ(body["choices"][0]["logprobs"]["top_ids"], (json{10, 12, 11, 10}));
}

// The engine pads a prompt's first position with NaN and id 0, which is a token of most models.
TEST(ResultLine, APositionWithoutLogprobsNamesNoTokens) {
  const auto body_of = [](const char* shape) {
    JobResult result = sample(shape);
    result.result->prompt = Tokens{11, 10};
    const float none = std::nanf("");
    result.result->prompt_logprobs = TokenLogprobs{.top = 2,
                                                   .token = {none, -0.5F},
                                                   .top_ids = {0, 0, 10, 0},
                                                   .top_logprobs = {none, none, -0.5F, -INFINITY}};
    return json::parse(result_line(result, 4, {.token_bytes = bytes_of}))["response"]["body"];
  };
  for (const char* shape : {"chat", "completion"}) {
    const json prompt = body_of(shape)["millrace"]["prompt_logprobs"];
    ASSERT_EQ(prompt.size(), 2u);
    EXPECT_EQ(prompt[0]["top_logprobs"], json::array());
    ASSERT_EQ(prompt[1]["top_logprobs"].size(), 2u);
    EXPECT_EQ(prompt[1]["top_logprobs"][0]["token"], "h");
  }
  const json plain = body_of("")["prompt_logprobs"];
  EXPECT_EQ(plain["top_ids"], (json{nullptr, nullptr, 10, 0}));
  EXPECT_EQ(plain["top_logprobs"], (json{nullptr, nullptr, -0.5, nullptr}));
  EXPECT_EQ(plain["token"].size(), 2u);
}

TEST(ResultLine, AFailureIsInErrorWithItsLine) {
  JobResult result;
  result.job = "9-0011223344556677";
  result.state = JobState::failed;
  result.error = Error{Code::context_exceeded, "too long", "shorten it"};
  const json line = json::parse(result_line(result, 9, {}));
  EXPECT_TRUE(line["custom_id"].is_null());
  EXPECT_EQ(line["response"]["status_code"], 400);
  EXPECT_EQ(line["response"]["body"]["error"]["code"], "context_exceeded");
  EXPECT_EQ(line["error"]["code"], "context_exceeded");
  EXPECT_EQ(line["error"]["message"], "too long");
  EXPECT_EQ(line["error"]["hint"], "shorten it");
  EXPECT_EQ(line["error"]["line"], 9);
}

TEST(ResultLine, EveryUnhappyEndHasAnError) {
  for (const auto& [state, code] :
       {std::pair{JobState::cancelled, "cancelled"}, std::pair{JobState::expired, "expired"},
        std::pair{JobState::failed, "internal"}}) {
    JobResult result;
    result.job = "1-0011223344556677";
    result.state = state;
    const json error = json::parse(result_line(result, 1, {}))["error"];
    EXPECT_EQ(error["code"], code);
    EXPECT_FALSE(error["hint"].get<std::string>().empty());
  }
}

TEST(ResultLine, CancelledJobKeepsWhatWasGenerated) {
  JobResult result = sample("chat");
  result.state = JobState::cancelled;
  const json line = json::parse(result_line(result, 4, {}));
  EXPECT_EQ(line["error"]["code"], "cancelled");
  EXPECT_EQ(line["response"]["body"]["choices"].size(), 1U);
}

TEST(ResultLine, DuplicateIsAWarning) {
  JobResult result = sample("chat");
  result.warnings = {"field x"};
  result.metadata[std::string(openai::duplicate_key)] = "2";
  const json line = json::parse(result_line(result, 4, {}));
  const json& warnings = line["response"]["body"]["millrace"]["warnings"];
  EXPECT_EQ(warnings, (json{"field x", "line 2 has the same custom_id"}));
}

TEST(PartialLine, HasWhatIsNewAndLeavesOutEmptyParts) {
  PartialEntry entry;
  entry.job = "j";
  entry.custom_id = "c";
  entry.attempt = 2;
  entry.partial.choice = 1;
  entry.partial.first_token = 5;
  entry.partial.tokens = {10, 11};
  entry.partial.text = "h\"\n";
  std::string line = partial_line("results", entry);
  ASSERT_TRUE(line.ends_with('\n'));
  EXPECT_EQ(line.find('\n'), line.size() - 1) << "one line";
  EXPECT_EQ(json::parse(line), json({{"object", "millrace.partial"},
                                     {"stream", "results"},
                                     {"job", "j"},
                                     {"custom_id", "c"},
                                     {"attempt", 2},
                                     {"choice", 1},
                                     {"first_token", 5},
                                     {"token_ids", {10, 11}},
                                     {"text", "h\"\n"}}));
  entry.partial.reasoning = "because";
  entry.partial.tool_calls = {"a()", "b()"};
  const json full = json::parse(partial_line("results", entry));
  EXPECT_EQ(full["reasoning"], "because");
  EXPECT_EQ(full["tool_calls"], json({"a()", "b()"}));
}

TEST(ResultLine, BadLine) {
  ParsedLine parsed;
  parsed.number = 12;
  parsed.error = Error{Code::invalid_json, "no", ""};
  parsed.id = "12-0011223344556677";
  const json line = json::parse(bad_line(parsed));
  EXPECT_TRUE(line["custom_id"].is_null());
  EXPECT_EQ(line["error"]["line"], 12);
  EXPECT_EQ(line["id"], "12-0011223344556677");
}

}  // namespace
}  // namespace millrace::client
