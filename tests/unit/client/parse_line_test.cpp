#include "client/lines/parse_line.hpp"

#include <gtest/gtest.h>

#include "schemas/codec.hpp"
#include "schemas/openai/notes.hpp"

namespace millrace::client {
namespace {

ParsedLine parse(std::string_view text, const LineOptions& options = {}) {
  InputLine line;
  line.number = 7;
  line.text = text;
  line.bytes = text.size();
  return parse_line(line, options);
}

Job job_of(const ParsedLine& parsed) {
  EXPECT_FALSE(parsed.error.has_value()) << parsed.error->text();
  const auto decoded = decode_job(parsed.body);
  EXPECT_TRUE(decoded.has_value());
  return decoded ? decoded->job : Job{};
}

std::string chat(const std::string& fields) {
  return R"({"custom_id":"c","method":"POST","url":"/v1/chat/completions","body":{"model":"m",)"
         R"("messages":[{"role":"user","content":"hi"}])" +
         fields + "}}";
}
std::string completion(const std::string& fields) {
  return R"({"custom_id":"c","method":"POST","url":"/v1/completions","body":{"model":"m")" +
         fields + "}}";
}

void expect_refused(const std::string& text, Code code, const LineOptions& options = {}) {
  const ParsedLine parsed = parse(text, options);
  ASSERT_TRUE(parsed.error.has_value()) << text;
  EXPECT_EQ(code_name(parsed.error->code), code_name(code)) << parsed.error->text();
  EXPECT_TRUE(parsed.body.empty());
}

TEST(ParseLine, ChatLine) {
  const ParsedLine parsed = parse(chat(
      R"(,"max_completion_tokens":9,"temperature":0.5,"top_p":0.9,"seed":3,"n":2,"stop":"\n",)"
      R"("logprobs":true,"top_logprobs":4,"metadata":{"k":"v"},"stream":false,"user":"u",)"
      R"("presence_penalty":0,"tools":[],"response_format":{"type":"text"},"logit_bias":null)"));
  EXPECT_EQ(parsed.endpoint, openai::Endpoint::chat);
  EXPECT_EQ(parsed.custom_id, "c");
  EXPECT_TRUE(parsed.warnings.empty());
  const Job job = job_of(parsed);
  EXPECT_EQ(job.custom_id, "c");
  EXPECT_EQ(job.model, "m");
  EXPECT_EQ(std::get<Chat>(job.request.prompt), (Chat{{"user", "hi"}}));
  EXPECT_EQ(job.request.max_tokens, 9U);
  EXPECT_FLOAT_EQ(job.request.sampling.temperature, 0.5F);
  EXPECT_EQ(job.request.sampling.seed, 3U);
  EXPECT_EQ(job.request.n, 2U);
  EXPECT_EQ(job.request.stops.strings, std::vector<std::string>{"\n"});
  EXPECT_TRUE(job.request.logprobs.sampled);
  EXPECT_EQ(job.request.logprobs.top, 4U);
  EXPECT_EQ(job.metadata.at("k"), "v");
  EXPECT_EQ(job.metadata.at(std::string(openai::shape_key)), "chat");
}

TEST(ParseLine, TellsAWrongLineFromAWrongRequestInIt) {
  EXPECT_FALSE(parse(chat("")).error_in_body);
  EXPECT_TRUE(parse(chat(R"(,"temperature":-1)")).error_in_body);
  EXPECT_TRUE(parse(completion(R"(,"prompt":["a","b"])")).error_in_body);
  for (const char* line :
       {"{", R"({"custom_id":1,"body":{}})", R"({"url":"/v1/embeddings","body":{}})",
        R"({"url":"/v1/completions","body":1})", R"({"url":"/v1/completions"})",
        R"({"prompt":1})"}) {
    const ParsedLine parsed = parse(line);
    EXPECT_TRUE(parsed.error) << line;
    EXPECT_FALSE(parsed.error_in_body) << line;
  }
}

TEST(ParseLine, ChatContentInTextParts) {
  const ParsedLine parsed =
      parse(R"({"url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":)"
            R"([{"type":"text","text":"a"},{"type":"text","text":"b"}]}]}})");
  const Chat messages = std::get<Chat>(job_of(parsed).request.prompt);
  ASSERT_EQ(messages.size(), 1U);
  EXPECT_EQ(messages[0].parts, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(messages[0].content, "ab");
  EXPECT_FALSE(parsed.custom_id.has_value());
}

// A template may write them as JSON, so they keep the order of their fields.
TEST(ParseLine, ToolsAndFieldsOfMessagesKeepTheirOrder) {
  const Job job = job_of(
      parse(R"({"messages":[{"role":"tool","content":"x","z":1,"a":{"y":[null,2.5],"b":true}}],)"
            R"("tools":[{"type":"function","function":{"name":"f","description":"d"}}],)"
            R"("tool_choice":"auto","chat_template_kwargs":{"k":"v","b":false}})"));
  const JsonObject a = {{"y", {JsonList{{}, {2.5}}}}, {"b", {true}}};
  EXPECT_EQ(std::get<Chat>(job.request.prompt).at(0).more,
            (JsonObject{{"z", {std::int64_t{1}}}, {"a", {a}}}));
  const JsonObject function = {{"name", {"f"}}, {"description", {"d"}}};
  EXPECT_EQ(job.request.chat.tools,
            (JsonList{{JsonObject{{"type", {"function"}}, {"function", {function}}}}}));
  EXPECT_EQ(job.request.chat.template_kwargs, (JsonObject{{"k", {"v"}}, {"b", {false}}}));
}

TEST(ParseLine, ToolCallsAreSetApart) {
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  const Job job = job_of(parse(chat(tools)));
  EXPECT_EQ(job.request.markers.known, KnownMarkers::all);
  EXPECT_TRUE(job.metadata.contains(std::string(openai::tools_key)));
  std::string score = chat(tools);
  score.insert(1, R"("task":"score",)");
  EXPECT_EQ(job_of(parse(score)).request.task, Task::score);
}

TEST(ParseLine, CompletionLine) {
  const Job job = job_of(parse(completion(R"(,"prompt":"once","logprobs":2,"stop":["a","b"])")));
  EXPECT_EQ(std::get<std::string>(job.request.prompt), "once");
  EXPECT_TRUE(job.request.logprobs.sampled);
  EXPECT_EQ(job.request.logprobs.top, 2U);
  EXPECT_EQ(job.request.stops.strings.size(), 2U);
  EXPECT_FALSE(job.request.max_tokens.has_value());
}

TEST(ParseLine, CompletionOfTokenIds) {
  EXPECT_EQ(std::get<Tokens>(job_of(parse(completion(R"(,"prompt":[1,2,70000])"))).request.prompt),
            (Tokens{1, 2, 70000}));
  EXPECT_EQ(std::get<Tokens>(job_of(parse(completion(R"(,"prompt":[[5,6]])"))).request.prompt),
            (Tokens{5, 6}));
  EXPECT_EQ(std::get<std::string>(job_of(parse(completion(R"(,"prompt":["x"])"))).request.prompt),
            "x");
}

TEST(ParseLine, PlainJob) {
  const ParsedLine parsed =
      parse(R"({"id":"me","prompt":"p","max_tokens":4,"task":"generate","stream":"s"})");
  EXPECT_EQ(parsed.endpoint, std::nullopt);
  const Job job = job_of(parsed);
  EXPECT_EQ(job.id, "me");
  EXPECT_EQ(job.stream, "s");
  EXPECT_TRUE(job.metadata.empty());
  EXPECT_EQ(std::get<Tokens>(job_of(parse(R"({"tokens":[3,4]})")).request.prompt), (Tokens{3, 4}));
}

TEST(ParseLine, RunDecidesIdModelStreamAndBatch) {
  const LineOptions options{.id = "7-abc", .model = "*", .stream = "results", .own_queue = true};
  const ParsedLine parsed =
      parse(R"({"id":"me","model":"x","prompt":"p","stream":"s","batch":"b"})", options);
  EXPECT_EQ(parsed.custom_id, "me");
  const Job job = job_of(parsed);
  EXPECT_EQ(job.id, "7-abc");
  EXPECT_EQ(job.custom_id, "");
  EXPECT_EQ(job.metadata.at(std::string(openai::label_key)), "me");
  EXPECT_EQ(job.model, "*");
  EXPECT_EQ(job.stream, "results");
  EXPECT_EQ(job.batch, "");
}

TEST(ParseLine, TheSeedDoesNotDependOnTheLineNumber) {
  const auto seed = [](const std::string& id) {
    return derived_seed(job_of(parse(chat(""), {.id = id, .model = "*", .own_queue = true})));
  };
  EXPECT_EQ(seed("1-aa"), seed("999-aa"));
}

TEST(ParseLine, RunAndSubmitDeriveTheSameSeed) {
  for (const char* line :
       {R"({"id":"me","prompt":"p"})", R"({"custom_id":"me","prompt":"p"})",
        R"({"prompt":"p","model":"m"})", R"({"prompt":"p","sampling":"model","top_k":0})"}) {
    const Job run = job_of(parse(line, {.id = "7-abc", .model = "*", .own_queue = true}));
    const Job submit = job_of(parse(line, {.batch = "evening"}));
    EXPECT_EQ(derived_seed(run), derived_seed(submit)) << line;
  }
}

TEST(ParseLine, UnknownFieldsWarnAndStrictRefuses) {
  const ParsedLine parsed = parse(chat(R"(,"colour":"red")"));
  ASSERT_EQ(parsed.warnings.size(), 1U);
  EXPECT_NE(parsed.warnings[0].find("colour"), std::string::npos);
  expect_refused(chat(R"(,"colour":"red")"), Code::unknown_field, {.strict = true});
}

TEST(ParseLine, KnownFieldsThatWouldChangeTheTextAreRefused) {
  for (const char* fields :
       {R"(,"tool_choice":"required")", R"(,"tool_choice":{"type":"function"})",
        R"(,"response_format":{"type":"json_object"})"}) {
    expect_refused(chat(fields), Code::unsupported_field);
  }
  expect_refused(chat(R"(,"stream":true)"), Code::unsupported_field);
  expect_refused(completion(R"(,"prompt":"p","echo":true)"), Code::unsupported_field);
  expect_refused(R"({"url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":)"
                 R"([{"type":"image_url","image_url":{"url":"x"}}]}]}})",
                 Code::unsupported_field);
}

TEST(ParseLine, PenaltiesAndBiasAreRead) {
  const LogitEdits edits =
      job_of(parse(chat(R"(,"presence_penalty":0.5,"logit_bias":{"5":-1},"bad_words":["x"])")))
          .request.edits;
  EXPECT_EQ(edits.presence.value, 0.5F);
  EXPECT_EQ(edits.bias, (std::vector<LogitBias>{{5, -1.0F}}));
  EXPECT_EQ(edits.bad_words, (std::vector<std::string>{"x"}));
}

TEST(ParseLine, WrongTypesAndRanges) {
  expect_refused(chat(R"(,"presence_penalty":3)"), Code::invalid_value);
  expect_refused(chat(R"(,"logit_bias":{"5":"x"})"), Code::invalid_value);
  expect_refused(chat(R"(,"temperature":"hot")"), Code::invalid_value);
  expect_refused(chat(R"(,"temperature":-1)"), Code::invalid_value);
  expect_refused(chat(R"(,"max_tokens":-5)"), Code::invalid_value);
  expect_refused(chat(R"(,"max_tokens":1.5)"), Code::invalid_value);
  expect_refused(chat(R"(,"n":0)"), Code::invalid_value);
  expect_refused(chat(R"(,"n":100000)"), Code::limit_exceeded);
  expect_refused(chat(R"(,"n":128,"max_tokens":1000000)"), Code::limit_exceeded);
  expect_refused(chat(R"(,"max_tokens":99999999999999999999999)"), Code::invalid_value);
  expect_refused(chat(R"(,"stop":"")"), Code::invalid_value);
  expect_refused(chat(R"(,"top_p":0)"), Code::invalid_value);
  expect_refused(chat(R"(,"metadata":{"k":1})"), Code::invalid_value);
  expect_refused(chat(R"(,"metadata":"x")"), Code::invalid_value);
  expect_refused(completion(R"(,"prompt":[1,-2])"), Code::invalid_token);
  expect_refused(completion(R"(,"prompt":[1,4294967296])"), Code::invalid_token);
  expect_refused(completion(R"(,"prompt":[1,"a"])"), Code::invalid_token);
  expect_refused(completion(R"(,"prompt":[])"), Code::empty_prompt);
  expect_refused(completion(R"(,"prompt":["a","b"])"), Code::invalid_value);
  expect_refused(R"({"tokens":"abc"})", Code::invalid_value);
  expect_refused(R"({"prompt":"p","task":"dance"})", Code::unknown_task);
}

TEST(ParseLine, RefusesLinesThatAreNoJob) {
  expect_refused("[1]", Code::invalid_json);
  expect_refused("nonsense", Code::invalid_json);
  expect_refused(R"({"custom_id":5,"prompt":"p"})", Code::invalid_value);
  expect_refused(R"({"custom_id":"x"})", Code::missing_field);
  expect_refused(R"({"custom_id":"x","url":"/v1/completions"})", Code::missing_field);
  expect_refused(R"({"custom_id":"x","body":{"prompt":"p"}})", Code::missing_field);
  expect_refused(R"({"url":"/v1/embeddings","body":{}})", Code::invalid_value);
  expect_refused(R"({"url":"/v1/completions","method":"GET","body":{}})", Code::invalid_value);
  expect_refused(R"({"url":"/v1/completions","body":[]})", Code::invalid_value);
  expect_refused(R"({"url":"/v1/completions","body":{"messages":[]}})", Code::missing_field);
  expect_refused(R"({"url":"/v1/chat/completions","body":{"prompt":"p"}})", Code::missing_field);
  expect_refused(R"({"url":"/v1/chat/completions","body":{"messages":[]}})", Code::empty_prompt);
}

TEST(ParseLine, RefusesBodiesThatMixTwoForms) {
  expect_refused(chat(R"(,"prompt":"p")"), Code::invalid_value);
  expect_refused(completion(R"(,"prompt":"p","messages":[])"), Code::invalid_value);
  for (const char* name : {"id", "custom_id", "batch", "tokens", "task", "deadline_us"}) {
    const std::string text = chat(std::string(",\"") + name + "\":1");
    expect_refused(text, Code::invalid_value);
    EXPECT_NE(parse(text).error.value_or(Error{}).message.find(name), std::string::npos);
  }
  const std::string twice =
      R"({"url":"/v1/completions","n":2,"body":{"model":"m","prompt":"p","n":1}})";
  expect_refused(twice, Code::invalid_value);
  EXPECT_EQ(parse(twice).error.value_or(Error{}).message,
            "the field \"n\" is beside body and inside it");
}

TEST(ParseLine, AsManyCandidatesAsChoicesChangeNothing) {
  EXPECT_EQ(job_of(parse(completion(R"(,"prompt":"p","n":2,"best_of":2)"))).request.n, 2U);
  EXPECT_TRUE(parse(completion(R"(,"prompt":"p","best_of":1)")).warnings.empty());
  expect_refused(completion(R"(,"prompt":"p","n":1,"best_of":2)"), Code::unsupported_field);
}

TEST(ParseLine, TheTypeOfAWrongValueIsAPhrase) {
  const auto message = [](const std::string& line) {
    return parse(line).error.value_or(Error{}).message;
  };
  EXPECT_EQ(message("[1]"), "the line holds an array, not an object");
  EXPECT_EQ(message("\"p\""), "the line holds a string, not an object");
  EXPECT_EQ(message("null"), "the line holds null, not an object");
  EXPECT_EQ(message(R"({"custom_id":5,"prompt":"p"})"),
            "custom_id is a whole number, not a string");
  EXPECT_EQ(message(R"({"custom_id":0.5,"prompt":"p"})"), "custom_id is a number, not a string");
  EXPECT_EQ(message(R"({"tokens":{}})"), "tokens is an object, not an array of token ids");
}

TEST(ParseLine, ABodyOfTheOtherEndpointNamesItsUrl) {
  const auto names = [](const std::string& line, const char* url) {
    return parse(line).error.value_or(Error{}).hint.find(url) != std::string::npos;
  };
  EXPECT_TRUE(names(R"({"url":"/v1/completions","body":{"messages":[]}})", "chat/completions"));
  EXPECT_TRUE(names(R"({"url":"/v1/chat/completions","body":{"prompt":"p"}})", "/v1/completions"));
  EXPECT_FALSE(names(R"({"url":"/v1/completions","body":{}})", "chat/completions"));
}

TEST(ParseLine, ABadLineKeepsItsCustomIdIfItCouldBeRead) {
  EXPECT_EQ(parse(chat(R"(,"n":0)")).custom_id, "c");
  EXPECT_EQ(parse("{\"custom_id\":\"c\"").custom_id, std::nullopt);
}

TEST(ParseLine, TooLongLine) {
  InputLine line;
  line.number = 3;
  line.too_long = true;
  line.bytes = 100'000'000;
  const ParsedLine parsed = parse_line(line, {});
  ASSERT_TRUE(parsed.error.has_value());
  EXPECT_EQ(parsed.error->code, Code::too_large);
  EXPECT_NE(parsed.error->message.find("100000000"), std::string::npos);
}

TEST(ParseLine, DuplicatedCustomIdIsNotedInTheJob) {
  CustomIds ids;
  ids.add("c", 3);
  const Job job = job_of(parse(chat(""), {.custom_ids = &ids}));
  EXPECT_EQ(job.metadata.at(std::string(openai::duplicate_key)), "3");
}

TEST(ParseLine, ARefusedLineKeepsItsJobsIdAndStream) {
  LineOptions options;
  options.id = "given";
  options.stream = "s";
  const ParsedLine given = parse(R"({"prompt":"p","custom_id":"c"})", options);
  EXPECT_EQ(given.id, "given");
  EXPECT_EQ(given.stream, "s");
  const ParsedLine own = parse(R"({"prompt":"p","id":"own","stream":"t"})", options);
  EXPECT_EQ(own.id, "own");
  EXPECT_EQ(own.stream, "t");
  EXPECT_EQ(parse("nonsense", options).id, "given");
  const ParsedLine refused = refused_line(7, own.body, {Code::conflict, "x", ""});
  EXPECT_EQ(refused.id, "own");
  EXPECT_EQ(refused.number, 7U);
  EXPECT_EQ(refused_line(7, given.body, {Code::conflict, "x", ""}).custom_id, "c");
}

}  // namespace
}  // namespace millrace::client
