#pragma once
// Byte-pair merging: turns a word's bytes, or its characters, into tokens by joining, again and
// again, the two neighbours whose merge has the best rank, and the leftmost of equals. It scans
// short words and uses a heap over a linked list for long ones, so that a long word of n bytes
// costs n log n. Both give the same tokens.
// Thread safety: immutable; each thread needs its own BpeScratch.
#include <array>
#include <bitset>
#include <cstdint>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>
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
  std::unordered_map<TokenId, std::pair<TokenId, TokenId>> halves;  // of unused tokens
};

class Bpe {
 public:
  explicit Bpe(const Vocabulary& vocabulary);

  // Appends the tokens of one word. A byte-level vocabulary may lack tokens of bytes: these are
  // dropped before merging, so that their neighbours may merge. Otherwise a character without a
  // token becomes the tokens of its bytes, or the unknown token.
  void encode(std::string_view word, BpeScratch& scratch, Tokens& out) const;

  // Cuts text into words that encode to the same tokens as the whole text would: between two
  // characters at which no merge could join. Replaces `ends` by the position at which each ends.
  // Not for byte-level vocabularies, whose words come from a pre-tokenizer.
  void cut(std::string_view text, std::vector<std::size_t>& ends) const;

 private:
  void add_character(std::string_view character, Tokens& out) const;
  void add_bytes(std::string_view bytes, Tokens& out) const;
  void merge_short(BpeScratch& scratch) const;  // merges scratch.tokens in place
  void merge_long(BpeScratch& scratch) const;
  // Appends what a token becomes after merging; usually itself.
  void finish(TokenId token, const BpeScratch& scratch, Tokens& out) const;

  const Vocabulary& vocabulary_;
  MergeTable merges_;
  std::array<std::optional<TokenId>, 256> byte_tokens_;
  std::unordered_map<std::string_view, TokenId> characters_;
  std::bitset<65536> joins_;  // [last byte of a merge's left token][first byte of its right token]
  // Merges may give an unused token, which comes apart again in the end into the halves of which
  // the text last could form it. So text may not be cut.
  bool unused_ = false;
  bool simple_ = true;  // every character has a token or tokens of bytes, and all tokens stay
};

}  // namespace millrace::engine
