#include "schemas/base/check_sampling.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "schemas/base/check_fields.hpp"
#include "schemas/base/limits.hpp"
#include "schemas/base/number_text.hpp"

namespace millrace {
namespace {

Status check_range(const std::string& field, float value, float least, float most) {
  if (std::isfinite(value) && value >= least && value <= most) return {};
  return fail(Code::invalid_value, field + " is " + number_text(value),
              "give a number from " + number_text(least) + " to " + number_text(most));
}

Status check_count(const std::string& field, std::uint64_t count, const char* unit,
                   std::uint64_t limit) {
  if (count <= limit) return {};
  return fail(
      Code::limit_exceeded,
      field + " is " + std::to_string(count) + unit + ", the limit is " + std::to_string(limit),
      "lower it");
}

Status check_bias(const std::vector<LogitBias>& bias) {
  MILLRACE_TRY(check_size("logit_bias", bias.size(), "tokens", limits::logit_bias));
  for (const LogitBias& b : bias) {
    MILLRACE_TRY(check_range("logit_bias of token " + std::to_string(b.token), b.bias,
                             -limits::logit_bias_value, limits::logit_bias_value));
  }
  std::vector<TokenId> ids;
  for (const LogitBias& b : bias) ids.push_back(b.token);
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice == ids.end()) return {};
  return fail(Code::invalid_value, "logit_bias names token " + std::to_string(*twice) + " twice",
              "give each token one bias");
}

Status check_dry(const Dry& dry) {
  MILLRACE_TRY(check_range("dry_multiplier", dry.multiplier, 0, limits::dry_multiplier));
  MILLRACE_TRY(check_range("dry_base", dry.base, 1, limits::dry_base));
  MILLRACE_TRY(
      check_count("dry_allowed_length", dry.allowed_length, " tokens", limits::dry_length));
  MILLRACE_TRY(check_count("dry_penalty_last_n", dry.window, " tokens", limits::dry_window));
  if (dry.allowed_length == 0) {
    return fail(Code::invalid_value, "dry_allowed_length is 0",
                "give a number from 1 to " + std::to_string(limits::dry_length));
  }
  if (dry.window == 0) {
    return fail(Code::invalid_value, "dry_penalty_last_n is 0",
                "give a number from 1 to " + std::to_string(limits::dry_window) +
                    "; dry_multiplier 0 turns DRY off");
  }
  MILLRACE_TRY(check_texts("dry_sequence_breakers", dry.breakers, limits::dry_breakers,
                           limits::bad_word_bytes));
  // A text ends with one token by itself and with perhaps another one behind a letter, so these are
  // as many as the texts can make.
  return check_size("dry_breaker_ids", dry.breaker_ids.size(), "ids", 2 * limits::dry_breakers);
}

Status check_bad_words(const LogitEdits& edits) {
  MILLRACE_TRY(
      check_texts("bad_words", edits.bad_words, limits::bad_words, limits::bad_word_bytes));
  return check_sequences("bad_word_ids", edits.bad_word_ids, limits::bad_words,
                         limits::bad_word_tokens);
}

}  // namespace

Status check_listed(const Tokens& listed) {
  MILLRACE_TRY(check_size("logprob_token_ids", listed.size(), "ids", limits::listed_logprobs));
  Tokens ids = listed;
  std::sort(ids.begin(), ids.end());
  const auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice == ids.end()) return {};
  return fail(Code::invalid_value, "logprob_token_ids names " + std::to_string(*twice) + " twice",
              "list each token once");
}

Status check_filters(const Sampling& s) {
  if (!(s.typical_p > 0.0f && s.typical_p <= 1.0f)) {
    return fail(Code::invalid_value, "typical_p is " + number_text(s.typical_p),
                "give a number above 0 and up to 1 (off)");
  }
  MILLRACE_TRY(check_range("xtc_probability", s.xtc_probability, 0, 1));
  // Weights of what XTC leaves are counted in 2^-40 of the likeliest token's.
  const float least = s.xtc_probability > 0 ? 1e-6f : 0.0f;
  return check_range("xtc_threshold", s.xtc_threshold, least, 0.5f);
}

Status check_edits(const LogitEdits& edits) {
  MILLRACE_TRY(check_bias(edits.bias));
  MILLRACE_TRY(check_range("repetition_penalty", edits.repetition.value,
                           1 / limits::repetition_penalty, limits::repetition_penalty));
  MILLRACE_TRY(check_range("presence_penalty", edits.presence.value, -limits::additive_penalty,
                           limits::additive_penalty));
  MILLRACE_TRY(check_range("frequency_penalty", edits.frequency.value, -limits::additive_penalty,
                           limits::additive_penalty));
  MILLRACE_TRY(check_count("repetition_penalty_window", edits.repetition.window, " tokens",
                           limits::penalty_window));
  MILLRACE_TRY(check_count("presence_penalty_window", edits.presence.window, " tokens",
                           limits::penalty_window));
  MILLRACE_TRY(check_count("frequency_penalty_window", edits.frequency.window, " tokens",
                           limits::penalty_window));
  MILLRACE_TRY(check_dry(edits.dry));
  MILLRACE_TRY(
      check_count("no_repeat_ngram_size", edits.no_repeat_ngram, " tokens", limits::ngram));
  MILLRACE_TRY(
      check_size("allowed_token_ids", edits.allowed.size(), "ids", limits::allowed_token_ids));
  return check_bad_words(edits);
}

}  // namespace millrace
