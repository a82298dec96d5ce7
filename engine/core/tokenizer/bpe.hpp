#pragma once
// Byte-pair merging: turns a word's bytes into tokens by joining, again and again, the two
// neighbours whose merge has the best rank, and the leftmost of equals. It scans short words and
// uses a heap over a linked list for long ones, so that a long word of n bytes costs n log n. Both
// give the same tokens.
// Thread safety: immutable; each thread needs its own BpeScratch.
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "engine/core/tokenizer/vocabulary.hpp"

namespace millrace::engine {

struct Merge {
  std::uint32_t rank = ~0u;  // ~0: the two tokens do not merge
  TokenId merged = 0;
};

// Maps a pair (left, right) to its merge. Open addressing, never more than half full.
class MergeTable {
 public:
  explicit MergeTable(const std::vector<MergePair>& merges);
  Merge find(TokenId left, TokenId right) const;

 private:
  struct Slot {
    // ~0 marks an empty slot. No pair has this key, because ids are below 2^24.
    std::uint64_t key = ~0ull;
    Merge merge;
  };
  std::size_t slot_of(std::uint64_t key) const;

  std::vector<Slot> slots_;
  int shift_;
};

// Working memory that is reused from word to word.
struct BpeScratch {
  struct Symbol {
    TokenId token;
    std::size_t previous, next;  // of the symbols that remain; ~0 at the ends
  };
  struct Candidate {
    std::uint32_t rank;
    std::size_t left;
    TokenId left_token, right_token, merged;  // the tokens when the candidate was made
  };
  Tokens tokens;
  std::vector<Merge> merges;
  std::vector<Symbol> symbols;
  std::vector<Candidate> heap;
};

class Bpe {
 public:
  explicit Bpe(const Vocabulary& vocabulary);

  // Appends the tokens of one word. Drops bytes without a token before merging, so that their
  // neighbours may merge.
  void encode(std::string_view word, BpeScratch& scratch, Tokens& out) const;

 private:
  void merge_short(BpeScratch& scratch) const;  // merges scratch.tokens in place
  void merge_long(BpeScratch& scratch) const;

  MergeTable merges_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
};

}  // namespace millrace::engine
