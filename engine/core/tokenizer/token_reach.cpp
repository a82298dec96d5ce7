#include "engine/core/tokenizer/token_reach.hpp"

#include <algorithm>
#include <string>

#include "engine/core/tokenizer/character_set.hpp"
#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

// Bytes that no text of valid UTF-8 has.
constexpr bool impossible(unsigned byte) {
  return byte == 0xc0 || byte == 0xc1 || byte > 0xf4;
}

}  // namespace

TokenReach::TokenReach(const Vocabulary& vocabulary, bool drops_spaces) {
  const bool bytes = vocabulary.form() == VocabularyForm::byte_level;
  for (TokenId id = 0; id < vocabulary.size(); ++id) {
    const std::string_view text = vocabulary.bytes(id);
    // A text may hold U+2581, which has three bytes, for a space.
    const auto spaces = bytes ? 0 : std::ranges::count(text, ' ');
    longest_ = std::max(longest_, text.size() + 2 * static_cast<std::uint64_t>(spaces));
  }
  bool all = true;
  for (unsigned byte = 0; byte < 256; ++byte) {
    counts_[byte] = vocabulary.byte_token(static_cast<std::uint8_t>(byte)).has_value();
    all = all && (counts_[byte] || impossible(byte));
  }
  // If a byte has no token, an unknown character may vanish into the one before it. Single
  // characters that are tokens never do.
  for (unsigned byte = 0; byte < 256 && !bytes && !all; ++byte) {
    const char c = static_cast<char>(byte);
    counts_[byte] = byte < 0x80 && vocabulary.find({&c, 1}).has_value();
  }
  whole_ = all && !drops_spaces;
  if (drops_spaces) leave_out_spaces();
}

// Leaves out the bytes of white space. Of other characters beyond ASCII only the first byte counts,
// because the rest of them may be the rest of white space as well.
void TokenReach::leave_out_spaces() {
  const CharacterSet spaces = CharacterSet::spaces();
  std::ranges::fill(counts_.begin() + 0x80, counts_.begin() + 0xc0, false);
  for (char32_t point = 0; point < 0x10000; ++point) {
    if (!spaces.contains(point, category_of(point))) continue;
    std::string text;
    utf8_append(text, point);
    counts_[static_cast<std::uint8_t>(text[0])] = false;
  }
}

std::uint64_t TokenReach::covered(std::string_view text, std::uint64_t most) const {
  if (whole_ || text.size() <= most) return text.size();
  std::uint64_t count = 0;
  constexpr std::size_t stride = 4096;
  for (std::size_t at = 0; at < text.size() && count <= most; at += stride) {
    for (const char c : text.substr(at, stride)) count += counts_[static_cast<std::uint8_t>(c)];
  }
  return count;
}

}  // namespace millrace::engine
