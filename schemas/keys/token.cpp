#include "schemas/keys/token.hpp"

#include <zmq.h>

#include <array>
#include <charconv>
#include <cstdint>

namespace millrace {
namespace {

constexpr std::string_view prefix = "sk-";
constexpr std::size_t secret_bytes = 32, text_bytes = 40;

}  // namespace

Result<std::string> token_of(const KeyPair& key) {
  std::array<std::uint8_t, secret_bytes> secret{};
  if (key.secret_key.size() != text_bytes ||
      ::zmq_z85_decode(secret.data(), key.secret_key.c_str()) == nullptr) {
    return fail(Code::usage, "the key has no secret half", "make one with `millrace keys new`");
  }
  constexpr std::string_view digits = "0123456789abcdef";
  std::string token(prefix);
  for (const std::uint8_t byte : secret) {
    token += digits[byte >> 4];
    token += digits[byte & 15];
  }
  return token;
}

Result<KeyPair> key_of_token(std::string_view token) {
  const auto refused = [] {
    return fail(Code::unauthorized, "the token is not one of `millrace keys token`",
                "give the one that it prints for a key file");
  };
  if (!token.starts_with(prefix) || token.size() != prefix.size() + 2 * secret_bytes) {
    return refused();
  }
  std::array<std::uint8_t, secret_bytes> secret{};
  for (std::size_t i = 0; i < secret_bytes; ++i) {
    const char* const at = token.data() + prefix.size() + 2 * i;
    const auto [end, error] = std::from_chars(at, at + 2, secret[i], 16);
    if (error != std::errc{} || end != at + 2) return refused();
  }
  std::array<char, text_bytes + 1> secret_text{}, public_text{};
  if (::zmq_z85_encode(secret_text.data(), secret.data(), secret.size()) == nullptr ||
      ::zmq_curve_public(public_text.data(), secret_text.data()) != 0) {
    return refused();
  }
  return KeyPair{public_text.data(), secret_text.data(), {}};
}

}  // namespace millrace
