#include "schemas/base/base64.hpp"

#include <array>
#include <cstdint>

namespace millrace {
namespace {

constexpr std::string_view alphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::int8_t, 256> make_values() {
  std::array<std::int8_t, 256> values{};
  for (auto& v : values) v = -1;
  for (std::size_t i = 0; i < alphabet.size(); ++i) {
    values[static_cast<unsigned char>(alphabet[i])] = static_cast<std::int8_t>(i);
  }
  return values;
}
constexpr auto values = make_values();

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = bytes.size() - i < 3 ? bytes.size() - i : 3;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j) {
      group = (group << 8) | (j < count ? static_cast<unsigned char>(bytes[i + j]) : 0u);
    }
    for (std::size_t j = 0; j < 4; ++j) {
      out.push_back(j <= count ? alphabet[(group >> (18 - 6 * j)) & 63] : '=');
    }
  }
  return out;
}

Result<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) {
    return fail(Code::invalid_value, "base64 of " + std::to_string(text.size()) + " characters",
                "its length must be a multiple of 4, padded with '='");
  }
  std::string out;
  out.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    const bool last = i + 4 == text.size();
    const std::size_t pad = last && text[i + 3] == '=' ? (text[i + 2] == '=' ? 2 : 1) : 0;
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const int v = j >= 4 - pad ? 0 : values[static_cast<unsigned char>(text[i + j])];
      if (v < 0) {
        return fail(Code::invalid_value,
                    "base64 has a wrong character at offset " + std::to_string(i + j));
      }
      group = (group << 6) | static_cast<std::uint32_t>(v);
    }
    // The bits that padding leaves over must be zero, so that each value has one text.
    if ((pad == 1 && (group & 0xFF) != 0) || (pad == 2 && (group & 0xFFFF) != 0)) {
      return fail(Code::invalid_value, "base64 ends in bits that belong to no byte");
    }
    out.push_back(static_cast<char>(group >> 16));
    if (pad < 2) out.push_back(static_cast<char>(group >> 8));
    if (pad < 1) out.push_back(static_cast<char>(group));
  }
  return out;
}

}  // namespace millrace
