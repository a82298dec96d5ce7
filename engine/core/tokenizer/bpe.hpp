#pragma once
// Byte-pair merging: a word's bytes become tokens by joining, again and again, the neighbours whose
// merge ranks best, the leftmost of equals. Short words by scanning, long ones with a heap over a
// linked list, so that a word of a megabyte costs n log n. Both give the same tokens.
// Thread safety: immutable; each thread brings its own BpeScratch.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/core/tokenizer/vocabulary.hpp"

namespace millrace::engine {

struct Merge {
  std::uint32_t rank = ~0u;  // ~0: these two do not merge
  TokenId merged = 0;
};

// (left, right) to its merge: open addressing, never more than half full.
class MergeTable {
 public:
  explicit MergeTable(const std::vector<MergePair>& merges);
  Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    std::uint64_t key = ~0ull;  // no pair: ids stay below 2^24
    Merge merge;
  };
  std::size_t slot_of(std::uint64_t key) const;

  std::vector<Slot> slots_;
  int shift_;
};

// Memory that is used again from word to word.
struct BpeScratch {
  struct Symbol {
    TokenId token;
    std::size_t previous, next;  // of the living symbols; npos at the ends
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t left;
    TokenId left_token, right_token, merged;  // the tokens it was made for
  };
  Tokens tokens;
  std::vector<Merge> merges;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

class Bpe {
 public:
  explicit Bpe(const Vocabulary& vocabulary);

  // Appends the tokens of one word. Bytes that the vocabulary does not hold are left out first, so
  // that their neighbours may merge.
  void encode(std::string_view word, BpeScratch& scratch, Tokens& out) const;

 private:
  void merge_short(BpeScratch& scratch) const;  // in scratch.tokens
  void merge_long(BpeScratch& scratch) const;

  MergeTable merges_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
};

}  // namespace millrace::engine
