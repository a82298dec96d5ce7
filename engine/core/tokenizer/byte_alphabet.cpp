#include "engine/core/tokenizer/byte_alphabet.hpp"

#include <array>

#include "schemas/base/utf8.hpp"

namespace millrace::engine {
namespace {

constexpr char32_t kFirstMoved = 0x100;
constexpr std::size_t kMoved = 68;

constexpr bool stands_for_itself(unsigned byte) {
  return (byte >= 0x21 && byte <= 0x7e) || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
}

struct Alphabet {
  std::array<char32_t, 256> to_code_point{};
  std::array<std::uint8_t, kMoved> moved{};
};

constexpr Alphabet make_alphabet() {
  Alphabet alphabet;
  std::size_t count = 0;
  for (unsigned byte = 0; byte < 256; ++byte) {
    if (stands_for_itself(byte)) {
      alphabet.to_code_point[byte] = byte;
    } else {
      alphabet.to_code_point[byte] = kFirstMoved + static_cast<char32_t>(count);
      alphabet.moved[count++] = static_cast<std::uint8_t>(byte);
    }
  }
  return alphabet;
}

constexpr Alphabet kAlphabet = make_alphabet();

}  // namespace

char32_t byte_to_code_point(std::uint8_t byte) {
  return kAlphabet.to_code_point[byte];
}

std::optional<std::uint8_t> code_point_to_byte(char32_t code_point) {
  if (code_point < 256 && stands_for_itself(code_point))
    return static_cast<std::uint8_t>(code_point);
  if (code_point >= kFirstMoved && code_point < kFirstMoved + kMoved)
    return kAlphabet.moved[code_point - kFirstMoved];
  return std::nullopt;
}

std::optional<std::string> alphabet_to_bytes(std::string_view text) {
  std::string bytes;
  while (!text.empty()) {
    const auto step = utf8_step(text);
    if (step.kind != Utf8Step::Kind::character) return std::nullopt;
    const auto byte = code_point_to_byte(step.code_point);
    if (!byte) return std::nullopt;
    bytes += static_cast<char>(*byte);
    text.remove_prefix(step.bytes);
  }
  return bytes;
}

}  // namespace millrace::engine
