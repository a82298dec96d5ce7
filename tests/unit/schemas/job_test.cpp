// Jobs: what is accepted, what is refused, and with which code.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <tuple>

#include "schemas/codec.hpp"
#include "schemas/job_table.hpp"
#include "tests/unit/schemas/build.hpp"
#include "tests/unit/schemas/job_expectations.hpp"

namespace millrace {
namespace {

using namespace build;

LogitEdits full_edits() {
  LogitEdits e;
  e.bias = {{0xFFFFFFFF, -100.0f}, {3, 0.5f}};
  e.repetition = {1.25f, PenaltyScope::output, 100};
  e.presence = {-0.5f, PenaltyScope::all, 1};
  e.frequency = {2.0f, PenaltyScope::all, limits::penalty_window};
  e.dry = {0.8f, 2.0f, 4, 4096, {".", "\n"}, {}};
  e.no_repeat_ngram = 3;
  e.allowed = {1, 2, 3};
  e.bad_words = {"darn", "\xC3\xA4"};
  e.bad_word_ids = {{5}, {6, 7}};
  return e;
}

Job full_job() {
  Job job;
  job.id = "job-1";
  job.custom_id = "line 1";
  job.model = "smollm2";
  job.priority = 4;
  job.deadline_us = 1'800'000'000'000'000;
  job.max_attempts = 7;
  job.stream = "out";
  job.batch = "b";
  job.metadata = {{"a", "1"}, {"b", "\xC3\xA4"}};
  job.strict = true;
  GenerationRequest& r = job.request;
  r.prompt = Chat{{"system", "be brief"}, {"user", "hello"}};
  r.parse_special = true;
  r.n = 2;
  r.max_tokens = 100;
  r.min_tokens = 3;
  r.max_reasoning_tokens = 9;
  r.sampling = {.temperature = 0.7f,
                .top_k = 40,
                .top_p = 0.9f,
                .min_p = 0.05f,
                .typical_p = 0.8f,
                .xtc_probability = 0.5f,
                .xtc_threshold = 0.25f,
                .seed = std::numeric_limits<std::uint64_t>::max()};
  r.edits = full_edits();
  r.stops = {{"\n\n", "END"}, {0, 2, 0xFFFFFFFF}, true, {{1}, {2, 3}}, true};
  r.markers.list = {{MarkedPart::tool_call, "[CALL]", ""}, {MarkedPart::reasoning, "<t>", "</t>"}};
  r.repetition_detection = {1024, 1, 2};
  r.logprobs = {true, 5, true, LogprobMode::processed, {7, 0}};
  r.partials = true;
  r.kv = "f16";
  r.require_fingerprint = "abc";
  return job;
}

TEST(Job, EveryFieldRoundTrips) {
  const Job job = full_job();
  const DecodedJob decoded = accepted(encode_job(job));
  EXPECT_EQ(decoded.job, job);
  EXPECT_TRUE(decoded.warnings.empty());
  EXPECT_EQ(encode_job(decoded.job), encode_job(job));
  Job text;
  text.request.prompt = "x";
  text.request.add_special_tokens = false;  // has no meaning in a chat
  EXPECT_EQ(accepted(encode_job(text)).job, text);
}

TEST(Job, DefaultsAreLeftOut) {
  Job job;
  job.request.prompt = "hi";
  EXPECT_EQ(encode_job(job), "\x81\xA6prompt\xA2hi");
  EXPECT_EQ(accepted(encode_job(job)).job, job);
  job.request.prompt = Tokens{1, 258};
  EXPECT_EQ(encode_job(job), std::string("\x81\xA6tokens\xC4\x08\x01\0\0\0\x02\x01\0\0", 18));
  EXPECT_EQ(accepted(encode_job(job)).job, job);
}

TEST(Job, EveryFieldOfTheTableIsRead) {
  for (const JobField& field : job_fields()) {
    // Only metadata, of other values, and chat_template_kwargs accept a map; any refusal names the
    // field.
    if (field.name == "chat_template_kwargs") continue;
    const auto decoded = decode_job(map({{field.name, map({{"x", boolean(true)}})}}));
    if (field.supported || !field.about.starts_with("any value")) {
      ASSERT_FALSE(decoded) << field.name;
      EXPECT_NE(decoded.error().code, Code::internal) << decoded.error().text();
      EXPECT_NE(decoded.error().message.find(field.name), std::string::npos)
          << decoded.error().text();
    }
    EXPECT_EQ(find_job_field(field.name), &field);
    // Null means absent, for every field.
    if (field.name != "prompt") accepted(with(field.name, nil()));
  }
  EXPECT_EQ(find_job_field("no_such_field"), nullptr);
}

TEST(Job, NeutralValuesPass) {
  for (const auto& [key, value] : {
           std::pair{"presence_penalty", uint(0)},
           {"presence_penalty", real(0)},
           {"frequency_penalty", real(0)},
           {"repetition_penalty", real(1)},
           {"repetition_penalty", uint(1)},
           {"logit_bias", map({})},
           {"response_format", map({{"type", str("text")}})},
           {"tools", arr({})},
           {"tool_choice", str("none")},
           {"tool_choice", str("auto")},
           {"best_of", uint(1)},
           {"echo", boolean(false)},
           {"suffix", str("")},
           {"stream", boolean(false)},
           {"modalities", arr({str("text")})},
           {"user", str("u-1")},
           {"store", boolean(true)},
           {"parallel_tool_calls", boolean(true)},
       }) {
    const DecodedJob decoded = accepted(with(key, value));
    EXPECT_TRUE(decoded.warnings.empty()) << key;
    EXPECT_EQ(decoded.job.stream, "results");
  }
}

TEST(Job, KnownFieldsThatWouldChangeTheTextAreRefused) {
  for (const auto& [key, value] : {
           std::pair{"response_format", map({{"type", str("json_object")}})},
           {"response_format", map({{"type", str("text")}, {"schema", map({})}})},
           {"tool_choice", str("required")},
           {"best_of", uint(2)},
           {"echo", boolean(true)},
           {"suffix", str("x")},
           {"stream", boolean(true)},
           {"modalities", arr({str("audio")})},
           {"guided_json", map({})},
       }) {
    EXPECT_REFUSED(with(key, value), unsupported_field, key);
  }
}

// A job may hold more unknown fields than a result may have warnings.
TEST(Job, WarnsOfALimitedNumberOfUnknownFieldsAndCountsTheOthers) {
  std::string job = "\xDF" + big_endian(limits::map_keys, 4) + str("prompt") + str("x");
  for (std::uint32_t i = 1; i < limits::map_keys; ++i) {
    job += str("field " + std::to_string(i)) + uint(i);
  }
  const DecodedJob decoded = accepted(job);
  ASSERT_EQ(decoded.warnings.size(), limits::job_warnings + 1);
  EXPECT_EQ(decoded.warnings.back(), std::to_string(limits::map_keys - 1 - limits::job_warnings) +
                                         " more unknown fields were left out");
}

TEST(Job, UnknownFieldsWarnAndStrictRefuses) {
  const DecodedJob decoded = accepted(with("temprature", uint(1)));
  ASSERT_EQ(decoded.warnings.size(), 1u);
  EXPECT_NE(decoded.warnings[0].find("temprature"), std::string::npos);
  EXPECT_REFUSED(map({{"prompt", str("x")}, {"foo", uint(1)}, {"strict", boolean(true)}}),
                 unknown_field, "foo");
  accepted(map({{"prompt", str("x")}, {"strict", boolean(true)}, {"user", str("u")}}));
}

TEST(Job, OnePromptOfThreeKinds) {
  EXPECT_REFUSED(map({}), missing_field, "prompt");
  EXPECT_REFUSED(map({{"prompt", str("x")}, {"tokens", arr({uint(1)})}}), invalid_value, "tokens");
  EXPECT_EQ(accepted(map({{"prompt", arr({uint(1), uint(7)})}})).job.request.prompt,
            Prompt(Tokens{1, 7}));
  EXPECT_EQ(accepted(map({{"prompt", arr({str("x")})}})).job.request.prompt, Prompt("x"));
  EXPECT_EQ(accepted(map({{"prompt", arr({arr({uint(3)})})}})).job.request.prompt,
            Prompt(Tokens{3}));
  EXPECT_REFUSED(map({{"prompt", arr({str("x"), str("y")})}}), unsupported_field, "prompt");
  EXPECT_REFUSED(map({{"prompt", arr({})}}), empty_prompt, "token");
  EXPECT_REFUSED(map({{"tokens", bin("")}}), empty_prompt, "token");
  EXPECT_REFUSED(map({{"tokens", bin("abc")}}), invalid_value, "tokens");
  EXPECT_REFUSED(map({{"tokens", arr({sint(-1)})}}), invalid_value, "tokens[0]");
  EXPECT_REFUSED(map({{"tokens", arr({uint(1), uint(1ull << 32)})}}), invalid_value, "tokens[1]");
  EXPECT_REFUSED(map({{"tokens", arr({real(1.5)})}}), invalid_value, "tokens[0]");
  EXPECT_REFUSED(map({{"prompt", uint(1)}}), invalid_value, "prompt");
}

TEST(Job, Ranges) {
  const double inf = std::numeric_limits<double>::infinity();
  EXPECT_REFUSED(with("temperature", real(std::nan(""))), invalid_value, "temperature");
  EXPECT_REFUSED(with("temperature", real(inf)), invalid_value, "temperature");
  EXPECT_REFUSED(with("temperature", real(-0.1)), invalid_value, "temperature");
  EXPECT_REFUSED(with("temperature", real(1e300)), invalid_value, "temperature");
  EXPECT_REFUSED(with("temperature", real(1e-60)), invalid_value, "temperature");
  EXPECT_REFUSED(with("temperature", uint(101)), invalid_value, "temperature");
  EXPECT_REFUSED(with("temperature", str("1")), invalid_value, "temperature");
  EXPECT_REFUSED(with("top_p", uint(0)), invalid_value, "top_p");
  EXPECT_REFUSED(with("top_p", real(1.01)), invalid_value, "top_p");
  EXPECT_REFUSED(with("min_p", real(-0.01)), invalid_value, "min_p");
  EXPECT_REFUSED(with("top_k", sint(-1)), invalid_value, "top_k");
  EXPECT_REFUSED(with("n", uint(0)), invalid_value, "n");
  EXPECT_REFUSED(with("n", real(1.5)), invalid_value, "n");
  EXPECT_REFUSED(with("n", real(0)), invalid_value, "n");
  EXPECT_REFUSED(with("max_tokens", real(1e19)), invalid_value, "max_tokens");
  EXPECT_REFUSED(with("n", uint(limits::n + 1)), limit_exceeded, "n");
  EXPECT_REFUSED(with("max_tokens", uint(0)), invalid_value, "max_tokens");
  EXPECT_REFUSED(with("max_tokens", sint(-5)), invalid_value, "max_tokens");
  EXPECT_REFUSED(with("max_tokens", uint(1ull << 40)), invalid_value, "max_tokens");
  EXPECT_REFUSED(with("max_tokens", uint(limits::job_tokens + 1)), limit_exceeded, "max_tokens");
  EXPECT_REFUSED(map({{"prompt", str("x")},
                      {"n", uint(128)},
                      {"max_tokens", uint(limits::job_tokens / 128 + 1)}}),
                 limit_exceeded, "n x max_tokens");
  EXPECT_REFUSED(with("min_tokens", uint(17)), invalid_value, "min_tokens");
  EXPECT_REFUSED(with("seed", sint(-1)), invalid_value, "seed");
  EXPECT_REFUSED(with("stop", str("")), invalid_value, "stop");
  EXPECT_REFUSED(with("stop", arr({str("a"), str("")})), invalid_value, "stop");
  EXPECT_REFUSED(with("stop", arr({uint(1)})), invalid_value, "stop[0]");
  EXPECT_REFUSED(with("stop", str(std::string(limits::stop_string_bytes + 1, 'x'))), limit_exceeded,
                 "stop");
  EXPECT_REFUSED(with("stop_token_ids", bin(std::string(4 * limits::stop_token_ids + 4, '\0'))),
                 limit_exceeded, "stop_token_ids");
  EXPECT_REFUSED(with("top_logprobs", uint(2)), invalid_value, "top_logprobs");
  EXPECT_REFUSED(with("logprobs", uint(limits::top_logprobs + 1)), limit_exceeded,
                 "logprobs is 129");
  EXPECT_REFUSED(with("logprob_mode", str("cooked")), invalid_value, "logprob_mode");
  EXPECT_REFUSED(with("priority", uint(limits::priority_count)), invalid_value, "priority");
  EXPECT_REFUSED(with("deadline_us", uint(0)), invalid_value, "deadline_us");
  EXPECT_REFUSED(with("deadline_us", uint(~0ull)), invalid_value, "deadline_us");
  EXPECT_REFUSED(with("max_attempts", uint(0)), invalid_value, "max_attempts");
  EXPECT_REFUSED(with("max_attempts", uint(limits::max_attempts + 1)), limit_exceeded,
                 "max_attempts");
  EXPECT_REFUSED(with("model", str("")), invalid_value, "model");
  EXPECT_REFUSED(with("stream", str("")), invalid_value, "stream");
  EXPECT_REFUSED(with("id", str("a\nb")), invalid_value, "id");
  EXPECT_REFUSED(with("id", str(std::string(limits::id_bytes + 1, 'x'))), limit_exceeded, "id");
  EXPECT_REFUSED(with("kv", str(std::string(16 * limits::KiB + 1, 'x'))), limit_exceeded, "kv");
  EXPECT_REFUSED(with("metadata", map({{"a", uint(1)}})), invalid_value, "metadata.a");
  EXPECT_REFUSED(with("metadata", map({{"a", str(std::string(limits::metadata_bytes, 'x'))}})),
                 limit_exceeded, "metadata");
}

// The longest policy: 1,024 layers, every second one protected, with the longest names of codecs.
TEST(Job, ThePolicyThatAResultNamesIsAcceptedInAJob) {
  std::string kv;
  for (int i = 0; i < 512; ++i) {
    kv += std::string(i == 0 ? "" : ", ") + "f16/f16 x1, q8g128/q8g128 x1";
  }
  kv += ", keys centered by " + std::string(32, 'a');
  EXPECT_EQ(accepted(with("kv", str(kv))).job.request.kv, kv);
}

TEST(Job, LogprobsInEitherOfOpenAisForms) {
  const auto wanted = [](Pairs pairs) {
    std::string body = map(pairs);
    return accepted(body).job.request.logprobs;
  };
  EXPECT_EQ(wanted({{"prompt", str("x")}, {"logprobs", boolean(true)}}),
            (LogprobRequest{true, 0, false, LogprobMode::raw}));
  EXPECT_EQ(wanted({{"prompt", str("x")}, {"logprobs", uint(3)}}),
            (LogprobRequest{true, 3, false, LogprobMode::raw}));
  EXPECT_EQ(wanted({{"prompt", str("x")}, {"top_logprobs", uint(4)}, {"logprobs", boolean(true)}}),
            (LogprobRequest{true, 4, false, LogprobMode::raw}));
  EXPECT_EQ(wanted({{"prompt", str("x")}, {"logprobs", boolean(false)}}), LogprobRequest{});
  EXPECT_REFUSED(map({{"prompt", str("x")}, {"logprobs", uint(2)}, {"top_logprobs", uint(3)}}),
                 invalid_value, "top_logprobs");
}

TEST(Job, MaxTokensHasTwoNames) {
  EXPECT_EQ(accepted(with("max_completion_tokens", uint(9))).job.request.max_tokens, 9u);
  EXPECT_REFUSED(
      map({{"prompt", str("x")}, {"max_tokens", uint(9)}, {"max_completion_tokens", uint(8)}}),
      invalid_value, "max_completion_tokens");
}

TEST(Job, ScoreAlwaysGivesPromptLogprobsAndTakesNoSampling) {
  const auto score = [](std::string_view key, const std::string& value) {
    return map({{"task", str("score")}, {"prompt", str("x")}, {key, value}});
  };
  const Job job = accepted(score("top_logprobs", uint(2))).job;
  EXPECT_TRUE(job.request.logprobs.prompt);
  EXPECT_EQ(accepted(encode_job(job)).job, job);
  EXPECT_REFUSED(score("n", uint(2)), invalid_value, "n");
  EXPECT_REFUSED(score("max_tokens", uint(5)), invalid_value, "max_tokens");
  EXPECT_REFUSED(score("max_reasoning_tokens", uint(5)), invalid_value, "max_reasoning_tokens");
  EXPECT_REFUSED(score("stop", str("x")), invalid_value, "stop");
  EXPECT_REFUSED(map({{"prompt", str("x")}, {"task", str("embed")}}), unknown_task, "embed");
}

TEST(Job, FieldsAboutSpecialTokensAreRefusedBesideTokenIds) {
  const std::string ids = arr({uint(1), uint(2)});
  for (const char* field : {"parse_special", "add_special_tokens"}) {
    for (const bool value : {false, true}) {
      EXPECT_REFUSED(map({{"tokens", ids}, {field, boolean(value)}}), invalid_value,
                     std::string(field) + " has no meaning for token ids");
      EXPECT_REFUSED(map({{"prompt", ids}, {field, boolean(value)}}), invalid_value, field);
      EXPECT_TRUE(decode_job(map({{"prompt", str("x")}, {field, boolean(value)}})));
    }
    EXPECT_TRUE(decode_job(map({{"tokens", ids}, {field, nil()}})));
  }
}

TEST(DerivedSeed, DependsOnPromptSamplingAndLabelOnly) {
  const Job job = full_job();
  Job other;  // only these fields are the same
  other.custom_id = job.custom_id;
  other.request.prompt = job.request.prompt;
  other.request.add_special_tokens = job.request.add_special_tokens;
  other.request.parse_special = job.request.parse_special;
  other.request.sampling = job.request.sampling;
  other.request.edits = job.request.edits;
  other.request.sampling.seed = 5;
  EXPECT_EQ(derived_seed(other), derived_seed(job));
  EXPECT_LT(derived_seed(job), 1ull << 53);
  const std::vector<std::function<void(Job&)>> changes = {
      [](Job& j) { j.custom_id = "line 2"; },
      [](Job& j) { j.request.prompt = "another prompt"; },
      [](Job& j) { j.request.add_special_tokens = !j.request.add_special_tokens; },
      [](Job& j) { j.request.parse_special = false; },
      [](Job& j) { j.request.parse_special.reset(); },
      [](Job& j) { j.request.sampling.temperature = 0.8f; },
      [](Job& j) { j.request.edits.presence.value = 0.125f; },
  };
  other = job;
  std::ranges::reverse(other.request.edits.bias);
  EXPECT_EQ(derived_seed(other), derived_seed(job)) << "the order of biases means nothing";
  for (std::size_t i = 0; i < changes.size(); ++i) {
    other = job;
    changes[i](other);
    EXPECT_NE(derived_seed(other), derived_seed(job)) << "change " << i;
  }
}

TEST(JobSampling, TheModelsSamplingCountsAfterWhatTheJobGives) {
  const auto request = [](const std::string& body) { return accepted(body).job.request; };
  const std::string plain = map({{"prompt", str("x")}, {"temperature", real(1)}});
  EXPECT_EQ(request(plain).sampling_source, SamplingSource::job);
  EXPECT_TRUE(request(plain).given_sampling.empty());
  const std::string asked = map({{"prompt", str("x")},
                                 {"repeat_penalty", real(1)},
                                 {"sampling", str("model")},
                                 {"temperature", real(1)},
                                 {"top_k", nil()}});
  const GenerationRequest r = request(asked);
  EXPECT_EQ(r.sampling_source, SamplingSource::model);
  EXPECT_EQ(r.given_sampling, (std::vector<std::string>{"temperature", "repetition_penalty"}));
  Job job;
  job.request = r;
  EXPECT_EQ(accepted(encode_job(job)).job, job) << "values that are defaults are written, too";
  const std::string word = map({{"prompt", str("x")}, {"sampling", str("job")}});
  EXPECT_EQ(request(word), request(map({{"prompt", str("x")}})));
}

TEST(JobSampling, BadWordsAreRefused) {
  EXPECT_REFUSED(with("sampling", str("file")), invalid_value, "sampling: unknown value 'file'");
  EXPECT_REFUSED(with("sampling", boolean(true)), invalid_value, "sampling");
  EXPECT_EQ(decode_job(with("sampling", str("file"))).error().hint, "use job or model");
}

// The seed comes from the job's own words: not from what a model suggests, which the job cannot
// know.
TEST(DerivedSeed, OfAModelsSamplingIsThatOfTheWord) {
  const auto seed = [](const std::string& body) { return derived_seed(accepted(body).job); };
  const std::string x = str("x"), model = str("model");
  const std::uint64_t plain = seed(map({{"prompt", x}}));
  EXPECT_EQ(seed(map({{"prompt", x}, {"sampling", str("job")}})), plain);
  const std::uint64_t asked = seed(map({{"prompt", x}, {"sampling", model}}));
  EXPECT_NE(asked, plain);
  const std::uint64_t given =
      seed(map({{"prompt", x}, {"sampling", model}, {"temperature", real(1)}}));
  EXPECT_NE(given, asked);
  EXPECT_EQ(seed(map({{"temperature", real(1)}, {"sampling", model}, {"prompt", x}})), given);
  EXPECT_EQ(seed(map({{"prompt", x}, {"sampling", model}, {"markers", str("none")}})), asked);
}

}  // namespace
}  // namespace millrace
