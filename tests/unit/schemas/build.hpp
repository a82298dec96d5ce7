#pragma once
// Builds msgpack for tests, well formed or not.
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace millrace::build {

inline std::string big_endian(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = bytes - 1; i >= 0; --i) out.push_back(static_cast<char>(value >> (8 * i)));
  return out;
}
inline std::string nil() {
  return "\xC0";
}
inline std::string boolean(bool v) {
  return v ? "\xC3" : "\xC2";
}
inline std::string uint(std::uint64_t v) {
  return "\xCF" + big_endian(v, 8);
}
inline std::string sint(std::int64_t v) {
  return "\xD3" + big_endian(static_cast<std::uint64_t>(v), 8);
}
inline std::string real(double v) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, &v, sizeof bits);
  return "\xCB" + big_endian(bits, 8);
}
inline std::string str(std::string_view s) {
  return "\xDB" + big_endian(s.size(), 4) + std::string(s);
}
inline std::string bin(std::string_view s) {
  return "\xC6" + big_endian(s.size(), 4) + std::string(s);
}
inline std::string arr(std::initializer_list<std::string> items) {
  std::string out = "\xDD" + big_endian(items.size(), 4);
  for (const std::string& item : items) out += item;
  return out;
}
using Pairs = std::initializer_list<std::pair<std::string_view, std::string>>;
inline std::string map(Pairs pairs) {
  std::string out = "\xDF" + big_endian(pairs.size(), 4);
  for (const auto& [key, value] : pairs) out += str(key) + value;
  return out;
}

}  // namespace millrace::build
