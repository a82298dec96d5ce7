#include "engine/core/request/encode_edits.hpp"

#include <algorithm>
#include <string>

#include "schemas/base/limits.hpp"

namespace millrace::engine {
namespace {

template <class T>
void add_once(std::vector<T>& list, const T& item) {
  if (std::find(list.begin(), list.end(), item) == list.end()) list.push_back(item);
}

TokenizeOptions bare() {
  TokenizeOptions options;
  options.add_special_tokens = false;
  return options;
}

}  // namespace

Result<LogitEdits> encode_edits(const LogitEdits& edits, const Tokenizer& tokenizer) {
  LogitEdits out = edits;
  for (std::size_t i = 0; i < edits.bad_words.size(); ++i) {
    for (const char* before : {"", " "}) {
      const Tokens ids = tokenizer.tokenize(before + edits.bad_words[i], bare());
      if (ids.empty()) continue;
      if (ids.size() > limits::bad_word_tokens) {
        return fail(Code::limit_exceeded,
                    "bad_words[" + std::to_string(i) + "] is " + std::to_string(ids.size()) +
                        " tokens long, the limit is " + std::to_string(limits::bad_word_tokens),
                    "give a shorter text");
      }
      add_once(out.bad_word_ids, ids);
    }
  }
  if (edits.dry.multiplier == 0.0f) return out;
  for (const std::string& text : edits.dry.breakers) {
    for (const char* before : {"", "a"}) {
      const Tokens ids = tokenizer.tokenize(before + text, bare());
      if (!ids.empty()) add_once(out.dry.breaker_ids, ids.back());
    }
  }
  return out;
}

}  // namespace millrace::engine
