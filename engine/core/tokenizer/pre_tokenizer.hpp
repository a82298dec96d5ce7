#pragma once
// Cuts text into words before byte-pair merging, by the rules that a model was trained with: the
// regular expressions of the reference tokenizers. Hand-written code matches them in one pass and
// backtracks at most over a run of whitespace. Unicode classes come from utf8proc. A byte that is
// not UTF-8 is a symbol. The words joined equal the text.
// Thread safety: pure functions.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::engine {

// Appends the position at which each word ends, in order. The last one is the text's size.
using SplitWords = void (*)(std::string_view text, std::vector<std::size_t>& ends);

struct PreTokenizer {
  std::string_view name;  // the value of `tokenizer.ggml.pre`
  SplitWords split;
  bool whole_words;  // a word in the vocabulary is one token, whatever the merges give
  bool adds_bos;     // the default of tokenizer.ggml.add_bos_token
};

// Returns null for an unknown name.
const PreTokenizer* find_pre_tokenizer(std::string_view name);
std::string supported_pre_tokenizers();  // "gpt-2, ...", for error hints

}  // namespace millrace::engine
