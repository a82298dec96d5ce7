#pragma once
// Cuts text into words before byte-pair merging, by the rules that a model was trained with: the
// regular expressions of the reference tokenizers, matched by hand in one pass without backtracking
// over more than a run of white space. Unicode classes come from utf8proc. Bytes that are no UTF-8
// are symbols of their own; text is never changed, so the words joined are the text.
// Thread safety: pure functions.
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::engine {

// Appends the end of each word of the text, in order; the last end is the text's size.
using SplitWords = void (*)(std::string_view text, std::vector<std::size_t>& ends);

struct PreTokenizer {
  std::string_view name;  // as in `tokenizer.ggml.pre`
  SplitWords split;
  bool whole_words;  // a word that is a token is that token, whatever the merges say
  bool adds_bos;     // where the file does not say
};

const PreTokenizer* find_pre_tokenizer(std::string_view name);
std::string supported_pre_tokenizers();  // "gpt-2, ...", for error hints

}  // namespace millrace::engine
