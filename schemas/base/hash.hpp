#pragma once
// XXH3 hashes: fast and well mixed, not cryptographic. They find equal data but do not protect
// against an adversary. Values are the same on every machine. Thread safety: plain values.
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace millrace {

struct Hash128 {
  std::uint64_t high = 0, low = 0;
  std::string hex() const;  // 32 digits, high half first
  friend bool operator==(const Hash128&, const Hash128&) = default;
};

std::uint64_t hash64(std::string_view bytes, std::uint64_t seed = 0);
Hash128 hash128(std::string_view bytes);

std::string hex(std::string_view bytes);  // two lower-case digits a byte
std::string hex(std::uint64_t value);     // 16 digits

// Computes hash128 of bytes that come in pieces.
class Hasher128 {
 public:
  Hasher128();
  ~Hasher128();
  Hasher128(Hasher128&&) noexcept;
  Hasher128& operator=(Hasher128&&) noexcept;
  void update(std::string_view bytes);
  Hash128 digest() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
