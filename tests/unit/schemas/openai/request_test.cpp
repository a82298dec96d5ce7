#include "schemas/openai/request.hpp"

#include <gtest/gtest.h>

#include "schemas/codec.hpp"
#include "schemas/openai/notes.hpp"

namespace millrace::openai {
namespace {

const std::string messages = R"("messages":[{"role":"user","content":"hi"}])";

Request parsed(Endpoint endpoint, const std::string& fields, const RequestOptions& options = {}) {
  auto request = parse_request(endpoint, "{" + fields + "}", options);
  EXPECT_TRUE(request.has_value()) << fields << ": " << request.error().text();
  return request ? *std::move(request) : Request{};
}
Request chat(const std::string& fields, const RequestOptions& options = {}) {
  return parsed(Endpoint::chat, messages + fields, options);
}
Request completion(const std::string& fields) {
  return parsed(Endpoint::completion, fields);
}
Job job_of(const Request& request, std::size_t i = 0) {
  const auto decoded = decode_job(request.jobs.at(i).body);
  EXPECT_TRUE(decoded.has_value());
  return decoded ? decoded->job : Job{};
}
void expect_refused(Endpoint endpoint, const std::string& text, Code code) {
  const auto request = parse_request(endpoint, text, {});
  ASSERT_FALSE(request.has_value()) << text;
  EXPECT_EQ(code_name(request.error().code), code_name(code)) << request.error().text();
}

TEST(OpenAIRequest, AChatIsAJob) {
  const Request request = chat(
      R"(,"model":"m","user":"u","max_completion_tokens":9,"temperature":0.5,"n":2,"stop":"\n",)"
      R"("logprobs":true,"top_logprobs":4,"metadata":{"k":"v"},"seed":null,"stream":false)",
      {.id = "me", .stream = "http", .deadline_us = 5});
  EXPECT_EQ(request.form, (AnswerForm{.endpoint = Endpoint::chat, .n = 2}));
  EXPECT_EQ(request.model, "m");
  EXPECT_EQ(request.user, "u");
  EXPECT_TRUE(request.warnings.empty());
  ASSERT_EQ(request.jobs.size(), 1U);
  EXPECT_EQ(request.jobs[0].id, "me");
  const Job job = job_of(request);
  EXPECT_EQ(job.id, "me");
  EXPECT_EQ(job.stream, "http");
  EXPECT_EQ(job.deadline_us, 5);
  EXPECT_EQ(job.model, "m");
  EXPECT_EQ(std::get<Chat>(job.request.prompt), (Chat{{"user", "hi"}}));
  EXPECT_EQ(job.request.max_tokens, 9U);
  EXPECT_EQ(job.request.n, 2U);
  EXPECT_EQ(job.request.logprobs.top, 4U);
  EXPECT_FALSE(job.request.partials);
  EXPECT_EQ(job.metadata.at("k"), "v");
  EXPECT_EQ(job.metadata.at(std::string(shape_key)), "chat");
}

TEST(OpenAIRequest, ATraceIsLeftOutWhereTheMetadataHaveNoRoom) {
  const RequestOptions traced{.traceparent = std::string(55, '1'), .tracestate = "a=1"};
  const auto metadata = [&](std::size_t entries, std::size_t bytes) {
    std::string fields;
    for (std::size_t i = 0; i < entries; ++i) {
      fields += (i == 0 ? "\"" : ",\"") + std::to_string(100 + i) + "\":\"" +
                std::string(i == 0 ? bytes : 1, 'x') + "\"";
    }
    return job_of(chat(",\"metadata\":{" + fields + "}", traced)).metadata;
  };
  EXPECT_EQ(metadata(1, 1).at("traceparent"), traced.traceparent);
  EXPECT_EQ(metadata(1, 1).at("tracestate"), "a=1");
  // One entry says what the job was made of.
  const std::size_t most = limits::metadata_entries - 1;
  EXPECT_FALSE(metadata(most, 1).contains("traceparent"));
  EXPECT_TRUE(metadata(most - 1, 1).contains("traceparent"));
  EXPECT_FALSE(metadata(most - 1, 1).contains("tracestate"));
  EXPECT_FALSE(metadata(1, limits::metadata_bytes - 60).contains("traceparent"));
}

TEST(OpenAIRequest, ASeedIsForBodiesWithoutOne) {
  EXPECT_EQ(job_of(chat("", {.seed = 7})).request.sampling.seed, 7U);
  EXPECT_EQ(job_of(chat(R"(,"seed":null)", {.seed = 7})).request.sampling.seed, 7U);
  EXPECT_EQ(job_of(chat(R"(,"seed":3)", {.seed = 7})).request.sampling.seed, 3U);
  EXPECT_EQ(job_of(chat("")).request.sampling.seed, std::nullopt);
  const auto several =
      parse_request(Endpoint::completion, R"({"prompt":["a","b"]})", {.seed = UINT64_MAX});
  ASSERT_TRUE(several);
  EXPECT_EQ(job_of(*several, 0).request.sampling.seed, UINT64_MAX);
  EXPECT_EQ(job_of(*several, 1).request.sampling.seed, 0U);
}

TEST(OpenAIRequest, NamesOfOtherServersAreUnderstood) {
  const Request request =
      chat(R"(,"top_k":40,"min_p":0.05,"repeat_penalty":1.1,"ignore_eos":true,"min_tokens":3,)"
           R"("stop_token_ids":[7],"skip_special_tokens":true,"chat_template_kwargs":{"t":false})");
  EXPECT_TRUE(request.warnings.empty());
  const GenerationRequest job = job_of(request).request;
  EXPECT_EQ(job.sampling.top_k, 40U);
  EXPECT_FLOAT_EQ(job.sampling.min_p, 0.05F);
  EXPECT_FLOAT_EQ(job.edits.repetition.value, 1.1F);
  EXPECT_TRUE(job.stops.ignore_eos);
  EXPECT_EQ(job.min_tokens, 3U);
  EXPECT_EQ(job.stops.token_ids, Tokens{7});
  EXPECT_EQ(job.chat.template_kwargs.size(), 1U);
}

TEST(OpenAIRequest, ANegativeSeedHasTheSameBits) {
  EXPECT_EQ(job_of(chat(R"(,"seed":-1)", {.seed = 7})).request.sampling.seed, UINT64_MAX);
  EXPECT_EQ(job_of(chat(R"(,"seed":-9223372036854775808)")).request.sampling.seed, 1ULL << 63);
  EXPECT_EQ(job_of(completion(R"("prompt":"p","seed":-3)")).request.sampling.seed, UINT64_MAX - 2);
  EXPECT_EQ(job_of(chat(R"(,"seed":18446744073709551615)")).request.sampling.seed, UINT64_MAX);
  for (const char* seed : {"-9223372036854775809", "18446744073709551616", "-1.5", "\"-1\""}) {
    expect_refused(Endpoint::chat, "{" + messages + R"(,"seed":)" + seed + "}",
                   Code::invalid_value);
  }
}

TEST(OpenAIRequest, MinusOneIsOffOrNoLimit) {
  EXPECT_EQ(job_of(chat(R"(,"top_k":-1)")).request.sampling.top_k, 0U);
  expect_refused(Endpoint::chat, "{" + messages + R"(,"top_k":-2})", Code::invalid_value);
  for (const std::string name : {"max_tokens", "max_completion_tokens", "n_predict"}) {
    const std::string field = ",\"" + name + "\":";
    EXPECT_EQ(job_of(chat(field + "-1")).request.max_tokens, std::nullopt) << name;
    for (const char* value : {"-2", "18446744073709551615"}) {
      expect_refused(Endpoint::chat, "{" + messages + field + value + "}", Code::invalid_value);
    }
    const auto refused =
        parse_request(Endpoint::completion, R"({"prompt":"p")" + field + "-1}", {});
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, Code::invalid_value);
    EXPECT_TRUE(refused.error().message.starts_with(name + " is -1")) << refused.error().text();
  }
}

TEST(OpenAIRequest, ANumberOfThePromptsLogprobsIsRefusedWithAnotherWay) {
  for (const char* number : {"0", "1", "-1"}) {
    const auto refused =
        parse_request(Endpoint::completion,
                      std::string(R"({"prompt":"p","prompt_logprobs":)") + number + "}", {});
    ASSERT_FALSE(refused) << number;
    EXPECT_EQ(refused.error().code, Code::invalid_value);
    EXPECT_NE(refused.error().hint.find("echo"), std::string::npos);
  }
  EXPECT_TRUE(job_of(completion(R"("prompt":"p","prompt_logprobs":true)")).request.logprobs.prompt);
}

TEST(OpenAIRequest, NamesOfOtherServersThatChangeATextAreNotDroppedInSilence) {
  EXPECT_EQ(job_of(chat(R"(,"n_predict":7)")).request.max_tokens, 7U);
  for (const char* fields :
       {R"("tfs_z":0.9)", R"("repeat_last_n":64)", R"("n_probs":3)", R"("top_n_sigma":1)",
        R"("json_schema":{"type":"object"})", R"("samplers":["top_k"])", R"("detokenize":false)",
        R"("dynatemp_range":0.5)", R"("documents":[{"text":"x"}])"}) {
    expect_refused(Endpoint::chat, "{" + messages + "," + fields + "}", Code::unsupported_field);
  }
  const Request neutral = chat(R"(,"cache_prompt":true,"id_slot":3,"tfs_z":1,"request_id":"r")");
  EXPECT_TRUE(neutral.warnings.empty());
}

TEST(OpenAIRequest, AStreamAsksTheJobForPartials) {
  const Request request =
      chat(R"(,"stream":true,"stream_options":{"include_usage":true,"include_obfuscation":false})");
  EXPECT_TRUE(request.form.stream);
  EXPECT_TRUE(request.form.include_usage);
  const Job job = job_of(request);
  EXPECT_TRUE(job.request.partials);
  EXPECT_EQ(job.stream, Job{}.stream);
  EXPECT_TRUE(request.warnings.empty());
  EXPECT_FALSE(chat(R"(,"stream":true)").form.include_usage);
  expect_refused(Endpoint::chat, "{" + messages + R"(,"stream_options":{"include_usage":true}})",
                 Code::invalid_value);
  expect_refused(
      Endpoint::chat,
      "{" + messages + R"(,"stream":true,"stream_options":{"continuous_usage_stats":true}})",
      Code::unsupported_field);
}

TEST(OpenAIRequest, EachPromptIsAJob) {
  const Request texts =
      parsed(Endpoint::completion, R"("prompt":["a","b"],"n":3,"max_tokens":5)", {.id = "r"});
  ASSERT_EQ(texts.jobs.size(), 2U);
  EXPECT_EQ(texts.form.n, 3U);
  EXPECT_EQ(texts.jobs[0].id, "r");
  EXPECT_EQ(texts.jobs[1].id, "1-of-r");
  EXPECT_EQ(job_of(texts, 1).id, "1-of-r");
  EXPECT_EQ(std::get<std::string>(job_of(texts, 0).request.prompt), "a");
  EXPECT_EQ(std::get<std::string>(job_of(texts, 1).request.prompt), "b");
  EXPECT_EQ(job_of(texts, 1).request.max_tokens, 5U);
  const Request ids = completion(R"("prompt":[[1,2],[3]])");
  EXPECT_EQ(std::get<Tokens>(job_of(ids, 1).request.prompt), Tokens{3});
  EXPECT_EQ(completion(R"("prompt":[[1,2]])").jobs.size(), 1U);
  EXPECT_EQ(std::get<Tokens>(job_of(completion(R"("prompt":[1,2])")).request.prompt),
            (Tokens{1, 2}));
  EXPECT_EQ(completion(R"("prompt":"p")").jobs.size(), 1U);
  expect_refused(Endpoint::completion, R"({"prompt":[[1],["b"]]})", Code::invalid_token);
  for (const char* mixed : {R"(["a",[1]])", R"([[1],"a"])", R"(["a",1])", R"([[1],1])"}) {
    expect_refused(Endpoint::completion, std::string(R"({"prompt":)") + mixed + "}",
                   Code::invalid_value);
  }
}

// So under one Idempotency-Key the first job is in conflict wherever the prompts differ.
TEST(OpenAIRequest, EachJobTellsWhichPromptsItsRequestHas) {
  const auto note = [](const std::string& prompt, std::size_t job) {
    return job_of(completion(R"("prompt":)" + prompt), job).metadata[std::string(prompts_key)];
  };
  const std::string first = note(R"(["a","b"])", 0);
  EXPECT_TRUE(first.starts_with("2-")) << first;
  EXPECT_EQ(note(R"(["a","b"])", 1), first);
  for (const char* other : {R"(["a","c"])", R"(["a","b","c"])", R"([[1],[2]])"}) {
    EXPECT_NE(note(other, 0), first) << other;
  }
  EXPECT_EQ(note(R"("a")", 0), "");
  EXPECT_EQ(note(R"(["a"])", 0), "");
}

TEST(OpenAIRequest, PromptsAreBoundedInNumberAndInBytes) {
  std::string many = R"({"prompt":["a")";
  for (std::size_t i = 0; i < most_prompts; ++i) many += R"(,"a")";
  expect_refused(Endpoint::completion, many + "]}", Code::limit_exceeded);
  std::string wide = R"({"prompt":["a")";
  for (int i = 0; i < 100; ++i) wide += R"(,"a")";
  wide += R"(],"chat_template":null,"user":")" + std::string(1 << 20, 'u') + "\"}";
  expect_refused(Endpoint::completion, wide, Code::too_large);
}

TEST(OpenAIRequest, AnEchoKeepsThePromptAndAsksForItsLogprobs) {
  const Request request = completion(R"("prompt":"once","echo":true,"logprobs":1,"max_tokens":1)");
  EXPECT_TRUE(request.form.echo && request.form.echo_logprobs);
  EXPECT_FALSE(completion(R"("prompt":"p","echo":true)").form.echo_logprobs);
  EXPECT_EQ(request.jobs[0].echo, Prompt("once"));
  EXPECT_TRUE(job_of(request).request.logprobs.prompt);
  EXPECT_EQ(job_of(request).request.task, Task::generate);
  EXPECT_FALSE(job_of(completion(R"("prompt":"p","echo":true)")).request.logprobs.prompt);
  EXPECT_EQ(completion(R"("prompt":[5,6],"echo":true)").jobs[0].echo, Prompt(Tokens{5, 6}));
  EXPECT_EQ(completion(R"("prompt":"p")").jobs[0].echo, Prompt(""));
  const Job score = job_of(completion(R"("prompt":"p","echo":true,"logprobs":0,"max_tokens":0)"));
  EXPECT_EQ(score.request.task, Task::score);
  const auto without = parse_request(Endpoint::completion, R"({"prompt":"p","max_tokens":0})", {});
  ASSERT_FALSE(without);
  EXPECT_EQ(without.error().code, Code::invalid_value);
  EXPECT_NE(without.error().hint.find(R"("echo": true)"), std::string::npos);
  expect_refused(Endpoint::chat, "{" + messages + R"(,"echo":true})", Code::unsupported_field);
}

TEST(OpenAIRequest, CallsAreSetApartWhereTheModelSeesTools) {
  const std::string tools = R"(,"tools":[{"type":"function","function":{"name":"f"}}])";
  const Request request = chat(tools);
  EXPECT_TRUE(request.tools.given);
  EXPECT_EQ(request.tools.list.size(), 1U);
  EXPECT_EQ(job_of(request).request.markers.known, KnownMarkers::all);
  EXPECT_TRUE(job_of(request).metadata.contains(std::string(tools_key)));
  EXPECT_EQ(job_of(chat(tools + R"(,"markers":"none")")).request.markers.known, KnownMarkers::none);
  for (const std::string& fields : {std::string(), tools + R"(,"tool_choice":"none")"}) {
    const Request without = chat(fields);
    EXPECT_FALSE(without.tools.given);
    EXPECT_EQ(job_of(without).request.markers.known, std::nullopt);
    EXPECT_FALSE(job_of(without).metadata.contains(std::string(tools_key)));
  }
}

TEST(OpenAIRequest, ToolsOfTooManyNamesLeaveRoomForOtherNotes) {
  std::string tools;
  for (int i = 0; i < 1000; ++i) {
    tools += (i == 0 ? R"(,"tools":[)" : ",");
    tools += R"({"type":"function","function":{"name":"a_tool_)" + std::to_string(i) + "\"}}";
  }
  EXPECT_EQ(job_of(chat(tools + "]")).metadata.at(std::string(tools_key)), "shown");
  const std::string one = R"(,"tools":[{"type":"function","function":{"name":"f"}}],)";
  const std::string longest = R"("metadata":{"a":")" + std::string(15'000, 'x') + "\"}";
  EXPECT_EQ(job_of(chat(one + longest)).metadata.at(std::string(tools_key)), "shown");
  EXPECT_EQ(job_of(chat(one + R"("metadata":{"a":"x"})")).metadata.at(std::string(tools_key)),
            R"({"f":[]})");
}

TEST(OpenAIRequest, AToolOfOpenAIsFormIsWhole) {
  const auto with = [](const std::string& tool) {
    return "{" + messages + R"(,"tools":[{"name":"f"},{"type":"function")" + tool + "}]}";
  };
  EXPECT_TRUE(parse_request(Endpoint::chat, with(R"(,"function":{"name":"f"})"), {}));
  expect_refused(Endpoint::chat, with(""), Code::missing_field);
  expect_refused(Endpoint::chat, with(R"(,"function":null)"), Code::missing_field);
  expect_refused(Endpoint::chat, with(R"(,"function":"f")"), Code::invalid_value);
  expect_refused(Endpoint::chat, with(R"(,"function":{})"), Code::missing_field);
  expect_refused(Endpoint::chat, with(R"(,"function":{"name":1})"), Code::invalid_value);
}

TEST(OpenAIRequest, ArgumentsOfEarlierCallsBecomeObjects) {
  const auto arguments = [](const std::string& written) {
    const Request request =
        parsed(Endpoint::chat,
               R"("messages":[{"role":"user","content":"x"},{"role":"assistant","content":null,)"
               R"("tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":)" +
                   written + "}}]}]");
    const ChatMessage message = std::get<Chat>(job_of(request).request.prompt).at(1);
    const auto& calls = std::get<JsonList>(message.more.at(0).value.value);
    const auto& call = std::get<JsonObject>(calls.at(0).value);
    const auto& function = std::get<JsonObject>(call.at(2).value.value);
    return function.at(1).value;
  };
  const Json object = {JsonObject{{"b", {std::int64_t{1}}}, {"a", {"x"}}}};
  EXPECT_EQ(arguments(R"("{\"b\": 1, \"a\": \"x\"}")"), object);
  EXPECT_EQ(arguments(R"({"b":1,"a":"x"})"), object);
  EXPECT_EQ(arguments(R"("")"), Json{""});
  EXPECT_EQ(arguments(R"("[1]")"), Json{"[1]"});
}

TEST(OpenAIRequest, UnknownFieldsWarn) {
  const Request request = chat(R"(,"colour":"red")");
  ASSERT_EQ(request.warnings.size(), 1U);
  EXPECT_NE(request.warnings[0].find("colour"), std::string::npos);
}

TEST(OpenAIRequest, RefusesWhatIsNoBody) {
  expect_refused(Endpoint::chat, "[1]", Code::invalid_json);
  expect_refused(Endpoint::chat, "{", Code::invalid_json);
  expect_refused(Endpoint::chat, R"({"messages":[],"messages":[]})", Code::invalid_json);
  expect_refused(Endpoint::chat, "{\"messages\":\"\xff\"}", Code::invalid_utf8);
  expect_refused(Endpoint::completion, std::string((8 << 20) + 1, ' '), Code::too_large);
  expect_refused(Endpoint::completion, R"({"prompt":[]})", Code::empty_prompt);
  expect_refused(Endpoint::chat, R"({"messages":[]})", Code::empty_prompt);
}

}  // namespace
}  // namespace millrace::openai
