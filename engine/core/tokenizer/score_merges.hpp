#pragma once
// Makes a list of merges from the scores of a SentencePiece vocabulary: two neighbours merge if the
// vocabulary has the piece that they form together, and the piece with the highest score comes
// first. So a piece gives one merge for each way to cut it into two pieces. A half may also be a
// single character that is no token: it can still become part of one.
// Thread safety: pure functions.
#include <span>
#include <string>
#include <vector>

#include "engine/core/tokenizer/vocabulary.hpp"

namespace millrace::engine {

struct ScoreMerges {
  std::vector<MergePair> merges;              // the best rank first; equal scores share a rank
  std::vector<std::string> extra_characters;  // no tokens; their ids follow those of the tokens
};

// `scores` holds one number for each token. Errors: gguf_malformed, if there are more than four
// million merges, which only a damaged file has.
Result<ScoreMerges> score_merges(const Vocabulary& vocabulary, std::span<const float> scores);

}  // namespace millrace::engine
