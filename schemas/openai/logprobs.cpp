#include "schemas/openai/logprobs.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <span>

#include "schemas/base/utf8.hpp"

namespace millrace::openai {
namespace {

float at_or_nan(const std::vector<float>& values, std::size_t at) {
  return at < values.size() ? values[at] : std::numeric_limits<float>::quiet_NaN();
}

// Returns where the `top` entries of one position end, as far as both arrays reach. A position
// without entries (a prompt's first token follows nothing) holds NaNs and meaningless ids instead.
std::size_t top_end(const TokenLogprobs& logprobs, std::size_t position) {
  const std::size_t held = std::min(logprobs.top_ids.size(), logprobs.top_logprobs.size());
  const std::size_t begin = position * logprobs.top, end = std::min(held, begin + logprobs.top);
  return begin < end && std::isnan(logprobs.top_logprobs[begin]) ? begin : end;
}

// Writes the likeliest tokens of one position with their logprobs, and the token itself, whether it
// is one of them or not. A prompt's first token, which follows nothing, has null.
void write_top(JsonWriter& json, TokenId token, const TokenLogprobs& logprobs, std::size_t position,
               const TokenTexts& texts) {
  const float its = at_or_nan(logprobs.token, position);
  if (std::isnan(its)) {
    json.null();
    return;
  }
  std::set<std::string> used;  // two ids may have one text, but a JSON object holds a name once
  const auto write = [&](TokenId id, float logprob) {
    std::string name = texts.text(id);
    if (!used.insert(name).second) name = "token_id:" + std::to_string(id);
    json.field(name, logprob);
  };
  bool found = false;
  json.begin_object();
  for (std::size_t at = position * logprobs.top; at < top_end(logprobs, position); ++at) {
    found = found || logprobs.top_ids[at] == token;
    write(logprobs.top_ids[at], logprobs.top_logprobs[at]);
  }
  if (!found) write(token, its);
  json.end_object();
}

void write_token(JsonWriter& json, TokenId id, float logprob, const TokenTexts& texts) {
  const std::optional<std::string> bytes = texts.bytes(id);
  json.field("token", texts.text(id)).field("logprob", logprob).key("bytes");
  if (!bytes) {
    json.null();
    return;
  }
  json.begin_array();
  for (const char c : *bytes) {
    json.value(int{static_cast<unsigned char>(c)});
  }
  json.end_array();
}

// Returns the logprobs of the listed tokens at one position; nothing if the array is too short.
std::span<const float> listed_at(const ListedLogprobs& listed, std::size_t position) {
  const std::size_t count = listed.ids.size(), first = position * count;
  if (first + count > listed.logprobs.size()) return {};
  return std::span(listed.logprobs).subspan(first, count);
}

std::uint64_t characters(std::string_view text) {
  return static_cast<std::uint64_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

}  // namespace

std::optional<std::string> TokenTexts::bytes(TokenId id) const {
  return bytes_ ? bytes_(id) : std::nullopt;
}

std::string TokenTexts::text(TokenId id) const {
  const std::optional<std::string> known = bytes(id);
  return known ? utf8_replace_invalid(*known) : "token_id:" + std::to_string(id);
}

void write_ids(JsonWriter& json, const Tokens& tokens) {
  json.begin_array();
  for (const TokenId id : tokens) {
    json.value(id);
  }
  json.end_array();
}

void write_chat_logprobs(JsonWriter& json, const Tokens& tokens, const TokenLogprobs& logprobs,
                         const TokenTexts& texts) {
  json.begin_array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    json.begin_object();
    write_token(json, tokens[i], at_or_nan(logprobs.token, i), texts);
    json.key("top_logprobs").begin_array();
    for (std::size_t at = i * logprobs.top; at < top_end(logprobs, i); ++at) {
      json.begin_object();
      write_token(json, logprobs.top_ids[at], logprobs.top_logprobs[at], texts);
      json.end_object();
    }
    json.end_array();
    if (logprobs.listed) {
      json.key("listed_logprobs").begin_array();
      const std::span<const float> values = listed_at(*logprobs.listed, i);
      for (std::size_t k = 0; k < values.size(); ++k) {
        json.begin_object();
        json.field("token_id", logprobs.listed->ids[k]);
        write_token(json, logprobs.listed->ids[k], values[k], texts);
        json.end_object();
      }
      json.end_array();
    }
    json.end_object();
  }
  json.end_array();
}

void write_completion_logprobs(JsonWriter& json, const Tokens& tokens,
                               const TokenLogprobs& logprobs, const TokenTexts& texts) {
  json.begin_object().key("tokens").begin_array();
  for (const TokenId id : tokens) {
    json.value(texts.text(id));
  }
  json.end_array().key("token_logprobs").begin_array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    json.value(at_or_nan(logprobs.token, i));
  }
  json.end_array().key("top_logprobs").begin_array();
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    write_top(json, tokens[i], logprobs, i, texts);
  }
  json.end_array();
  if (logprobs.listed) {
    json.key("listed_logprobs").begin_array();
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const std::span<const float> values = listed_at(*logprobs.listed, i);
      json.begin_object();
      for (std::size_t k = 0; k < values.size(); ++k) {
        json.field("token_id:" + std::to_string(logprobs.listed->ids[k]), values[k]);
      }
      json.end_object();
    }
    json.end_array();
  }
  json.key("text_offset").begin_array();
  std::uint64_t offset = 0;
  bool known = true;
  for (const TokenId id : tokens) {
    if (known) {
      json.value(offset);
    } else {
      json.null();
    }
    const std::optional<std::string> bytes = texts.bytes(id);
    known = known && bytes;
    offset += bytes ? characters(*bytes) : 0;
  }
  json.end_array().end_object();
}

void write_logprob_arrays(JsonWriter& json, const TokenLogprobs& logprobs) {
  json.begin_object().field("top", logprobs.top).key("token").begin_array();
  for (const float value : logprobs.token) {
    json.value(value);
  }
  json.end_array().key("top_ids").begin_array();
  for (std::size_t i = 0; i < logprobs.top_ids.size(); ++i) {
    if (std::isnan(at_or_nan(logprobs.top_logprobs, i))) {
      json.null();
    } else {
      json.value(logprobs.top_ids[i]);
    }
  }
  json.end_array().key("top_logprobs").begin_array();
  for (const float value : logprobs.top_logprobs) {
    json.value(value);
  }
  json.end_array();
  if (logprobs.listed) {
    json.key("listed_ids");
    write_ids(json, logprobs.listed->ids);
    json.key("listed_logprobs").begin_array();
    for (const float value : logprobs.listed->logprobs) {
      json.value(value);
    }
    json.end_array();
  }
  json.end_object();
}

}  // namespace millrace::openai
