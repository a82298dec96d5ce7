#pragma once
// Reads a file's bytes in order, with checks: an error names the byte where the read began.
// Errors: gguf_malformed. Thread safety: one owner.
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

#include "engine/core/gguf/metadata.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

static_assert(std::endian::native == std::endian::little,
              "tensors are used in place, so the host must be little-endian");

// Makes text from a file fit for a message: escapes what is not printable, cuts it to 80 bytes.
std::string printable(std::string_view text);

inline std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// The size of one value of a fixed-size type; 0 for strings and arrays.
std::size_t scalar_bytes(ValueType type);

class Cursor {
 public:
  explicit Cursor(std::span<const std::byte> bytes) : bytes_(bytes) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t left() const { return bytes_.size() - position_; }

  template <class T>
  Result<T> read(std::string_view what) {
    auto bytes = take(sizeof(T), what);
    if (!bytes) return std::unexpected(std::move(bytes).error());
    T value;
    std::memcpy(&value, bytes->data(), sizeof value);
    return value;
  }
  // Takes the next `size` bytes; `what` names them in the error.
  Result<std::span<const std::byte>> take(std::uint64_t size, std::string_view what);
  // Reads a string: its length as u64, then its bytes, at most `limit` of them.
  Result<std::string_view> string(std::uint64_t limit, std::string_view what);

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t position_ = 0;
};

// The error of a file that is damaged at byte `offset`.
std::unexpected<Error> malformed(std::uint64_t offset, const std::string& reason);

}  // namespace millrace::engine
