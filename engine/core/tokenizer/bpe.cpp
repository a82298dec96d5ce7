#include "engine/core/tokenizer/bpe.hpp"

#include <algorithm>
#include <bit>

#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t kNoRank = ~0u;
constexpr std::size_t kNone = ~std::size_t{0};
// For longer words, scanning all pairs for each merge costs more than a heap.
constexpr std::size_t kShortWord = 48;

constexpr std::uint64_t pair_key(TokenId left, TokenId right) {
  return std::uint64_t{left} << 32 | right;
}

constexpr std::size_t junction(char last, char first) {
  return std::size_t{static_cast<std::uint8_t>(last)} << 8 | static_cast<std::uint8_t>(first);
}

// Returns the size of the first character; a byte that is not UTF-8 is one of its own.
std::size_t character_size(std::string_view text) {
  if (static_cast<std::uint8_t>(text[0]) < 0x80) return 1;
  const auto step = utf8_step(text.substr(0, 4));
  return step.kind == Utf8Step::Kind::character ? step.bytes : 1;
}

// Orders the heap so that the best candidate is on top: the lowest rank, then the leftmost.
bool worse(const BpeScratch::Candidate& a, const BpeScratch::Candidate& b) {
  return a.rank != b.rank ? a.rank > b.rank : a.left > b.left;
}

}  // namespace

MergeTable::MergeTable(const std::vector<MergePair>& merges)
    : slots_(std::bit_ceil(std::max<std::size_t>(merges.size() * 2, 16))),
      shift_(64 - std::countr_zero(slots_.size())) {
  for (const auto& merge : merges) {
    const auto key = pair_key(merge.left, merge.right);
    Slot& slot = slots_[slot_of(key)];
    if (slot.key == key) continue;  // listed twice: the better rank wins
    slot = {key, {merge.rank, merge.merged}};
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

Bpe::Bpe(const Vocabulary& vocabulary) : vocabulary_(vocabulary), merges_(vocabulary.merges()) {
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_tokens_[byte] = vocabulary.byte_token(static_cast<std::uint8_t>(byte));
  if (vocabulary.form() == VocabularyForm::byte_level) return;
  simple_ = vocabulary.extra_characters().empty() &&
            std::ranges::all_of(byte_tokens_, [](const auto& token) { return token.has_value(); });
  const auto extra = vocabulary.extra_characters();
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const auto bytes = vocabulary.bytes(id);
    if (vocabulary.kind(id) == TokenKind::normal && character_size(bytes) == bytes.size())
      characters_.emplace(bytes, id);
  }
  for (std::size_t i = 0; i < extra.size(); ++i)
    characters_.emplace(extra[i], vocabulary.size() + static_cast<TokenId>(i));
  const auto text_of = [&](TokenId id) -> std::string_view {
    return id < vocabulary.size() ? vocabulary.bytes(id) : extra[id - vocabulary.size()];
  };
  for (const auto& merge : vocabulary.merges()) {
    joins_.set(junction(text_of(merge.left).back(), text_of(merge.right).front()));
    unused_ = unused_ || vocabulary.kind(merge.merged) == TokenKind::unused;
  }
  simple_ = simple_ && !unused_;
}

void Bpe::cut(std::string_view text, std::vector<std::size_t>& ends) const {
  ends.clear();
  for (std::size_t at = 1; at < text.size() && !unused_; ++at) {
    const bool inside = (static_cast<std::uint8_t>(text[at]) & 0xc0) == 0x80;
    if (!inside && !joins_[junction(text[at - 1], text[at])]) ends.push_back(at);
  }
  if (!text.empty()) ends.push_back(text.size());
}

void Bpe::encode(std::string_view word, BpeScratch& scratch, Tokens& out) const {
  auto& tokens = scratch.tokens;
  tokens.clear();
  if (vocabulary_.form() == VocabularyForm::byte_level) {
    for (const char c : word)
      if (const auto token = byte_tokens_[static_cast<std::uint8_t>(c)]) tokens.push_back(*token);
  } else {
    for (std::size_t at = 0; at < word.size();) {
      const auto character = word.substr(at, character_size(word.substr(at)));
      add_character(character, tokens);
      at += character.size();
    }
  }
  if (tokens.size() <= kShortWord && !unused_)
    merge_short(scratch);
  else
    merge_long(scratch);
  if (simple_)
    out.insert(out.end(), tokens.begin(), tokens.end());
  else
    for (const auto token : tokens) finish(token, scratch, out);
}

void Bpe::add_character(std::string_view character, Tokens& out) const {
  const auto found = characters_.find(character);
  if (found != characters_.end())
    out.push_back(found->second);
  else
    add_bytes(character, out);
}

// Appends the tokens of bytes that form no token: those of the single bytes, or the unknown token,
// which stands for all of its neighbours that are unknown, too.
void Bpe::add_bytes(std::string_view bytes, Tokens& out) const {
  if (bytes == " ") bytes = kSpaceSymbol;  // so SentencePiece writes it
  const auto token = [this](char byte) { return byte_tokens_[static_cast<std::uint8_t>(byte)]; };
  if (std::ranges::all_of(bytes, [&](char byte) { return token(byte).has_value(); })) {
    for (const char byte : bytes) out.push_back(*token(byte));
  } else if (out.empty() || out.back() != vocabulary_.unknown()) {
    out.push_back(*vocabulary_.unknown());
  }
}

void Bpe::finish(TokenId token, const BpeScratch& scratch, Tokens& out) const {
  if (token >= vocabulary_.size())
    return add_bytes(vocabulary_.extra_characters()[token - vocabulary_.size()], out);
  if (token == vocabulary_.unknown() && !out.empty() && out.back() == token) return;
  const auto halves = scratch.halves.find(token);
  if (vocabulary_.kind(token) != TokenKind::unused || halves == scratch.halves.end()) {
    out.push_back(token);
    return;
  }
  finish(halves->second.first, scratch, out);
  finish(halves->second.second, scratch, out);
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
  scratch.halves.clear();
  if (count == 0) return;
  for (std::size_t i = 0; i < count; ++i)
    symbols.push_back({scratch.tokens[i], i == 0 ? kNone : i - 1, i + 1 == count ? kNone : i + 1});
  const auto consider = [&](std::size_t left) {
    if (left == kNone || symbols[left].next == kNone) return false;
    const auto a = symbols[left].token, b = symbols[symbols[left].next].token;
    const auto merge = merges_.find(a, b);
    if (merge.rank == kNoRank) return false;
    heap.push_back({merge.rank, left, a, b, merge.merged});
    if (unused_ && vocabulary_.kind(merge.merged) == TokenKind::unused)
      scratch.halves.insert_or_assign(merge.merged, std::pair(a, b));
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
