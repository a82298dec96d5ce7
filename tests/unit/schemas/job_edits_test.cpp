// Edits of logits in a job: their forms, their ranges, and the messages of refusals.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "schemas/codec.hpp"
#include "schemas/job_table.hpp"
#include "tests/unit/schemas/build.hpp"
#include "tests/unit/schemas/job_expectations.hpp"

namespace millrace {
namespace {

using namespace build;

TEST(JobEdits, Ranges) {
  const double nan = std::nan("");
  for (const auto& [field, value, word] : {
           std::tuple{"logit_bias", map({{"x", uint(1)}}), "'x' is not a token id"},
           {"logit_bias", map({{"-1", uint(1)}}), "'-1' is not a token id"},
           {"logit_bias", map({{"4294967296", uint(1)}}), "4294967296"},
           {"logit_bias", map({{"7", real(100.5)}}), "logit_bias of token 7 is 100.5"},
           {"logit_bias", map({{"7", real(nan)}}), "logit_bias.7"},
           {"logit_bias", arr({arr({uint(7)})}), "logit_bias[0]"},
           {"logit_bias", arr({uint(7)}), "logit_bias[0]"},
           {"logit_bias", arr({arr({uint(7), uint(1)}), arr({uint(7), uint(2)})}), "7 twice"},
           {"repetition_penalty", uint(0), "repetition_penalty is 0"},
           {"repetition_penalty", real(10.5), "repetition_penalty is 10.5"},
           {"repeat_penalty", real(nan), "repeat_penalty"},
           {"presence_penalty", real(2.5), "presence_penalty is 2.5"},
           {"frequency_penalty", real(-2.5), "frequency_penalty is -2.5"},
           {"presence_penalty_scope", str("prompt"), "presence_penalty_scope"},
           {"dry_multiplier", sint(-1), "dry_multiplier is -1"},
           {"dry_base", real(0.5), "dry_base is 0.5"},
           {"dry_allowed_length", uint(0), "dry_allowed_length is 0"},
           {"dry_penalty_last_n", uint(0), "dry_penalty_last_n is 0"},
           {"dry_sequence_breakers", arr({str("")}), "dry_sequence_breakers[0] is empty"},
           {"bad_words", arr({str("a"), str("")}), "bad_words[1] is empty"},
           {"bad_word_ids", arr({arr({})}), "bad_word_ids[0] is empty"},
           {"bad_word_ids", arr({uint(5)}), "bad_word_ids[0]"},
           {"allowed_token_ids", arr({sint(-1)}), "allowed_token_ids[0]"},
           {"allowed_token_ids", arr({}), "allowed_token_ids is empty"},
           {"typical_p", uint(0), "typical_p is 0"},
           {"typical_p", real(1.5), "typical_p is 1.5"},
           {"xtc_probability", real(1.5), "xtc_probability is 1.5"},
           {"xtc_threshold", real(0.6), "xtc_threshold is 0.6"},
           {"logprob_token_ids", arr({uint(1)}), "logprob_token_ids are given"},
       }) {
    EXPECT_REFUSED(with(field, value), invalid_value, word);
  }
  const std::string ids(4 * limits::allowed_token_ids + 4, '\0');
  const std::string word(limits::bad_word_bytes + 1, 'x');
  std::string words = "\xDC\x04\x01";  // an array of 1,025
  for (std::uint32_t i = 0; i <= limits::bad_words; ++i) words += str("x");
  for (const auto& [field, value] : {
           std::pair{"dry_allowed_length", uint(65)},
           {"dry_penalty_last_n", uint(4097)},
           {"no_repeat_ngram_size", uint(65)},
           {"repetition_penalty_window", uint(limits::penalty_window + 1)},
           {"presence_penalty_window", uint(limits::penalty_window + 1)},
           {"frequency_penalty_window", uint(limits::penalty_window + 1)},
           {"allowed_token_ids", bin(ids)},
           {"bad_words", arr({str(word)})},
           {"bad_words", words},
           {"bad_word_ids", arr({bin(std::string(4 * 65, '\0'))})},
           {"logprob_token_ids", bin(std::string(4 * 129, '\0'))},
       }) {
    EXPECT_REFUSED(with(field, value), limit_exceeded, field);
  }
}

// Each refusal names the field, the value, and the values that are accepted.
TEST(JobEdits, RefusalsSayTheFieldTheValueAndTheRange) {
  struct Case {
    const char *field, *value, *range;
    std::string body;
  };
  const auto of = [](const char* field, const std::string& given, const char* value,
                     const char* range) {
    return Case{field, value, range, with(field, given)};
  };
  const std::string window = std::to_string(limits::penalty_window);
  for (const auto& [field, value, range, body] : {
           of("logit_bias", map({{"7", real(100.5)}}), "100.5", "-100 to 100"),
           of("repetition_penalty", real(10.5), "is 10.5", "0.1 to 10"),
           of("repetition_penalty", uint(0), "is 0", "0.1 to 10"),
           of("presence_penalty", real(2.5), "2.5", "-2 to 2"),
           of("frequency_penalty", real(-2.5), "-2.5", "-2 to 2"),
           of("repetition_penalty_window", uint(2000000), "2000000", window.c_str()),
           of("presence_penalty_window", uint(2000000), "2000000", window.c_str()),
           of("frequency_penalty_window", uint(2000000), "2000000", window.c_str()),
           of("repetition_penalty_scope", str("prompt"), "prompt", "output"),
           of("presence_penalty_scope", str("all"), "all", "output"),
           of("frequency_penalty_scope", str("all"), "all", "output"),
           of("dry_multiplier", sint(-1), "is -1", "0 to 100"),
           of("dry_base", real(0.5), "0.5", "1 to 10"),
           of("dry_allowed_length", uint(65), "65", "64"),
           of("dry_penalty_last_n", uint(4097), "4097", "4096"),
           of("no_repeat_ngram_size", uint(65), "65", "64"),
           of("typical_p", real(1.5), "1.5", "above 0 and up to 1"),
           of("xtc_probability", real(1.5), "1.5", "0 to 1"),
           of("xtc_threshold", real(0.6), "0.6", "0 to 0.5"),
           of("min_p", real(-0.5), "-0.5", "0 to 1"),
           of("top_logprobs", uint(129), "129", "128"),
           of("logprob_mode", str("cooked"), "cooked", "processed"),
           of("priority", uint(5), "5", "0 to 4"),
           of("min_tokens", uint(17), "17", "16"),
           of("allowed_token_ids", arr({sint(-1)}), "-1",
              "65536 ids, each below the size of the voc"),
           of("markers", str("all"), "all", "auto"),
           of("partials", str("yes"), "'yes'", "true or false"),
           of("include_stop_str_in_output", uint(2), "number, 2", "true or false"),
           of("strict", real(0.5), "0.5", "true or false"),
           of("stop", boolean(true), "boolean, true", "up to 64"),
           of("min_tokens", str(std::string(99, 'x')), "xx...'", "0 to 1048576"),
           of("metadata", arr({nil(), nil()}), "2 items", "64 entries"),
           of("seed", map({{"x", nil()}}), "1 key", "0 to 18446744073709551615"),
           of("temperature", bin("abc"), "3 bytes", "0 to 100"),
           of("temperature", real(1e39), "1e39", "0 to 100"),
           of("temperature", real(1e-60), "1e-60", "0 to 100"),
           of("min_p", real(std::nan("")), "nan", "0 to 1"),
           of("dry_base", real(1e39), "1e39", "1 to 10"),
           of("dry_multiplier", real(1e39), "1e39", "0 to 100"),
           of("dry_allowed_length", sint(-1), "-1", "1 to 64"),
           of("dry_penalty_last_n", sint(-1), "-1", "1 to 4096"),
           of("no_repeat_ngram_size", sint(-1), "-1", "0 to 64"),
           of("repetition_penalty_window", sint(-1), "-1", window.c_str()),
           of("presence_penalty_window", sint(-1), "-1", window.c_str()),
           of("frequency_penalty_window", sint(-1), "-1", window.c_str()),
           of("frequency_penalty", real(-1e39), "-1e39", "-2 to 2"),
           of("presence_penalty", str("2"), "'2'", "-2 to 2"),
           of("repetition_penalty", real(1e39), "1e39", "0.1 to 10"),
           of("logit_bias", map({{"7", real(1e39)}}), "1e39", "-100 to 100"),
           of("typical_p", str("high"), "'high'", "above 0 and up to 1"),
           of("xtc_probability", real(1e39), "1e39", "0 to 1"),
           of("xtc_threshold", str("x"), "'x'", "0 to 0.5"),
           of("top_k", sint(-1), "-1", "0 to 4294967295"),
           of("top_k", uint(std::uint64_t{1} << 32), "4294967296", "0 to 4294967295"),
           of("top_p", uint(0), "top_p is 0", "above 0 and up to 1"),
           of("logprob_token_ids", arr({sint(-1)}), "-1",
              "128 ids, each below the size of the voc"),
           of("stop_token_ids", arr({sint(-1)}), "-1", "1024 ids, each below the size of the voc"),
           of("n", uint(0), "n is 0", "1 to 128"),
           of("max_attempts", uint(0), "max_attempts is 0", "1 to 100"),
           of("max_tokens", uint(0), "max_tokens is 0", "1 to 1048576"),
           of("max_completion_tokens", sint(-1), "-1", "0 to 1048576"),
           of("deadline_us", sint(-5), "-5", "Unix time"),
       }) {
    const auto refused = decode_job(body);
    ASSERT_FALSE(refused) << field;
    const std::string said = refused.error().message + " / " + refused.error().hint;
    EXPECT_NE(said.find(field), std::string::npos) << said;
    EXPECT_NE(said.find(value), std::string::npos) << said;
    EXPECT_NE(said.find(range), std::string::npos) << said;
  }
}

// Whatever is wrong with a field, the refusal's hint says which values it accepts.
TEST(JobEdits, EveryRefusalHasAHintThatFits) {
  for (const auto& [field, given, message, hint] : {
           std::tuple{"top_k", sint(-1), "top_k: -1", "0 is off"},
           {"seed", sint(-1), "seed: -1", "a job without one"},
           {"priority", sint(-1), "priority: -1", "0 to 4"},
           {"priority", uint(5), "priority is 5", "0 to 4"},
           {"n", uint(0), "n is 0", "1 to 128"},
           {"n", uint(129), "n is 129", "1 to 128"},
           {"temperature", uint(101), "temperature is 101", "0 to 100"},
           {"logprobs", uint(500), "logprobs is 500", "0 to 128"},
           {"logprobs", str("yes"), "true, false or a whole number", "0 to 128"},
           {"prompt_logprobs", uint(7), "prompt_logprobs: must be true or false", "always raw"},
           {"max_attempts", uint(0), "max_attempts", "1 to 100"},
           {"frequency_penalty", real(1e30), "frequency_penalty is 1e30", "-2 to 2"},
           {"metadata", uint(1), "metadata", "64 entries"},
           {"repetition_detection", map({{"max_pattern_size", uint(0)}}), "max_pattern_size is 0",
            "give a number from 1 to 1024"},
           {"markers", arr({map({{"part", str("reasoning")}, {"open", str("")}})}),
            "markers[0].open is empty", "give a text"},
       }) {
    const Error error = refused(with(field, given));
    EXPECT_NE(error.message.find(message), std::string::npos) << error.text();
    EXPECT_NE(error.hint.find(hint), std::string::npos) << error.text();
  }
  const Error empty = refused(map({{"prompt", arr({})}}));
  EXPECT_EQ(empty.message.find("tokens"), std::string::npos) << "it was given as prompt";
  for (const JobField& field : job_fields()) {
    const auto odd = decode_job(with(field.name, map({{"x", boolean(true)}})));
    if (odd) continue;  // a field that accepts any value
    EXPECT_NE(odd.error().hint, "") << odd.error().text();
  }
}

TEST(JobEdits, EachForm) {
  const auto edits = [](std::string_view key, const std::string& value) {
    return accepted(with(key, value)).job.request.edits;
  };
  const std::vector<LogitBias> bias = {{50256, -100.0f}, {3, 1.5f}};
  EXPECT_EQ(edits("logit_bias", map({{"50256", sint(-100)}, {"3", real(1.5)}})).bias, bias);
  EXPECT_EQ(
      edits("logit_bias", arr({arr({uint(50256), sint(-100)}), arr({uint(3), real(1.5)})})).bias,
      bias);
  EXPECT_EQ(edits("repeat_penalty", real(1.5)).repetition.value, 1.5f);
  EXPECT_EQ(edits("bad_word_ids", arr({arr({uint(1), uint(2)})})).bad_word_ids,
            (std::vector<Tokens>{{1, 2}}));
  EXPECT_REFUSED(map({{"prompt", str("x")},
                      {"repeat_penalty", real(1.5)},
                      {"repetition_penalty", real(1.25)}}),
                 invalid_value, "repeat_penalty");
  EXPECT_FALSE(edits("dry_base", real(2)).any());
  EXPECT_TRUE(edits("dry_multiplier", real(2)).any());
}

}  // namespace
}  // namespace millrace
