#include "engine/core/tokenizer/bpe.hpp"

#include <algorithm>
#include <bit>

namespace millrace::engine {
namespace {

constexpr std::uint32_t kNoRank = ~0u;
constexpr std::size_t kNone = ~std::size_t{0};
// For longer words, scanning all pairs for each merge costs more than a heap.
constexpr std::size_t kShortWord = 48;

constexpr std::uint64_t pair_key(TokenId left, TokenId right) {
  return std::uint64_t{left} << 32 | right;
}

// Orders the heap so that the best candidate is on top: the lowest rank, then the leftmost.
bool worse(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
}

}  // namespace

MergeTable::MergeTable(const std::vector<MergePair>& merges)
    : slots_(std::bit_ceil(std::max<std::size_t>(merges.size() * 2, 16))),
      shift_(64 - std::countr_zero(slots_.size())) {
  for (std::size_t rank = 0; rank < merges.size(); ++rank) {
    const auto key = pair_key(merges[rank].left, merges[rank].right);
    Slot& slot = slots_[slot_of(key)];
    if (slot.key == key) continue;  // listed twice: the better rank wins
    slot = {key, {static_cast<std::uint32_t>(rank), merges[rank].merged}};
  }
}

std::size_t MergeTable::slot_of(std::uint64_t key) const {
  // Fibonacci hashing: the upper bits of the product spread over the table.
  auto slot = static_cast<std::size_t>((key * 0x9e3779b97f4a7c15ull) >> shift_);
  while (slots_[slot].key != key && slots_[slot].key != ~0ull)
    slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

Merge MergeTable::find(TokenId left, TokenId right) const {
  return slots_[slot_of(pair_key(left, right))].merge;
}

Bpe::Bpe(const Vocabulary& vocabulary) : merges_(vocabulary.merges()) {
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = vocabulary.byte_token(static_cast<std::uint8_t>(byte));
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, Tokens& out) const {
  scratch.tokens.clear();
  for (const char c : word)
    if (const auto token = byte_tokens_[static_cast<std::uint8_t>(c)])
      scratch.tokens.push_back(*token);
  if (scratch.tokens.size() <= kShortWord)
    merge_short(scratch);
  else
    merge_long(scratch);
  out.insert(out.end(), scratch.tokens.begin(), scratch.tokens.end());
}

void Bpe::merge_short(BpeScratch& scratch) const {
  auto& tokens = scratch.tokens;
  auto& merges = scratch.merges;  // merges[i] joins tokens[i] and tokens[i + 1]
  merges.clear();
  for (std::size_t i = 0; i + 1 < tokens.size(); ++i)
    merges.push_back(merges_.find(tokens[i], tokens[i + 1]));
  while (!merges.empty()) {
    const auto best = std::ranges::min_element(merges, {}, &Merge::rank);
    if (best->rank == kNoRank) return;
    const auto i = static_cast<std::size_t>(best - merges.begin());
    tokens[i] = best->merged;
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    merges.erase(best);
    if (i > 0) merges[i - 1] = merges_.find(tokens[i - 1], tokens[i]);
    if (i < merges.size()) merges[i] = merges_.find(tokens[i], tokens[i + 1]);
  }
}

void Bpe::merge_long(BpeScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& heap = scratch.heap;
  const auto count = scratch.tokens.size();
  symbols.clear();
  heap.clear();
  for (std::size_t i = 0; i < count; ++i)
    symbols.push_back({scratch.tokens[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1});
  const auto consider = [&](std::size_t left) {
    if (left == kNone || symbols[left].next == kNone) return false;
    const auto a = symbols[left].token, b = symbols[symbols[left].next].token;
    const auto merge = merges_.find(a, b);
    if (merge.rank == kNoRank) return false;
    heap.push_back({merge.rank, left, a, b, merge.merged});
    return true;
  };
  for (std::size_t i = 0; i < count; ++i) consider(i);
  std::ranges::make_heap(heap, worse);
  std::vector<bool> gone(count);
  while (!heap.empty()) {
    std::ranges::pop_heap(heap, worse);
    const auto best = heap.back();
    heap.pop_back();
    auto& left = symbols[best.left];
    // Skips a candidate whose symbols have since merged with others.
    if (gone[best.left] || left.token != best.left_token || left.next == kNone ||
        symbols[left.next].token != best.right_token)
      continue;
    const auto right = left.next;
    left.token = best.merged;
    left.next = symbols[right].next;
    gone[right] = true;
    if (left.next != kNone) symbols[left.next].previous = best.left;
    if (consider(left.previous)) std::ranges::push_heap(heap, worse);
    if (consider(best.left)) std::ranges::push_heap(heap, worse);
  }
  scratch.tokens.clear();
  for (std::size_t i = 0; i != kNone; i = symbols[i].next)
    scratch.tokens.push_back(symbols[i].token);
}

}  // namespace millrace::engine
