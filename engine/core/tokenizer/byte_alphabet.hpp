#pragma once
// The alphabet of byte-level BPE: vocabularies write each byte as one printable code point, so that
// "Ġthe" stands for " the". A printable Latin-1 character stands for itself. U+0100 and the code
// points after it stand for the 68 other bytes, in byte order. Source: the encoder of
// https://github.com/openai/gpt-2
// Thread safety: pure functions.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace::engine {

char32_t byte_to_code_point(std::uint8_t byte);
std::optional<std::uint8_t> code_point_to_byte(char32_t code_point);

// Returns the bytes that a vocabulary entry stands for, or nothing if it has a character outside
// the alphabet.
std::optional<std::string> alphabet_to_bytes(std::string_view text);

}  // namespace millrace::engine
