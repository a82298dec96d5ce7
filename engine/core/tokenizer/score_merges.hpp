#pragma once
// Makes a list of merges from the scores of a SentencePiece vocabulary: two neighbours merge if the
// vocabulary has the piece that they form together, and the piece with the highest score comes
// first. So a piece gives one merge for each way to cut it into two pieces. A half may also be a
// single character that is no token: it can still become part of one.
// Thread safety: pure functions.
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/tokenizer/vocabulary.hpp"

namespace millrace::engine {

// Returns the merges, the best rank first, and the characters that are no tokens. Pieces of equal
// scores share a rank. `scores` holds one number for each token.
std::pair<std::vector<MergePair>, std::vector<std::string>> score_merges(
    const Vocabulary& vocabulary, std::span<const float> scores);

}  // namespace millrace::engine
