#pragma once
// Cuts text into words before byte-pair merging, by the rules that a model was trained with: the
// regular expressions of its own tokenizer, in pre_tokenizer_rules.cpp, applied one after another.
// Each cuts the words that the one before it left: every match is a word, and so is the text
// between two matches. The words joined equal the text.
// Thread safety: immutable.
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/tokenizer/pattern.hpp"

namespace millrace::engine {

struct SplitRule {
  std::string_view pattern;
  Reading reading = Reading::characters;
  // Where `pattern` does not match, it does not match within this match either, so the search goes
  // on after it. Keeps the time linear where a failed search looks far ahead.
  std::string_view skip = {};
};

// What a value of `tokenizer.ggml.pre` stands for.
struct PreTokenizerRow {
  std::string_view name;
  std::span<const SplitRule> rules = {};
  bool whole_words = false;  // a word in the vocabulary is one token, whatever the merges give
  bool adds_bos = false;     // the default of tokenizer.ggml.add_bos_token
};

// Returns null for an unknown name.
const PreTokenizerRow* find_pre_tokenizer(std::string_view name);
// Returns the first row with these expressions, one a rule, or null. Spellings that find the same
// words are alike.
const PreTokenizerRow* recognize_pre_tokenizer(std::span<const std::string> patterns,
                                               bool whole_words);
std::string supported_pre_tokenizers();  // "gpt-2, ...", for error hints

class PreTokenizer {
 public:
  // Errors: internal, if a rule is not a pattern.
  static Result<PreTokenizer> compile(std::span<const SplitRule> rules);

  // Replaces `ends` by the position at which each word ends, in order; the last is the text's size.
  void split(std::string_view text, std::vector<std::size_t>& ends) const;

 private:
  struct Stage {
    Pattern pattern;
    std::vector<Pattern> skip;  // at most one
    void split(std::string_view text, std::size_t begin, std::vector<std::size_t>& ends) const;
  };
  std::vector<Stage> stages_;
};

}  // namespace millrace::engine
