#pragma once
// Reads msgpack, one object header at a time. It allocates nothing, has no state but its place, and
// never reads past the end, so that both the validating visitor and the decoders use it.
// Format: https://github.com/msgpack/msgpack/blob/master/spec.md
// Thread safety: plain value; views point into the bytes given.
#include <bit>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace millrace::msgpack_reader {

// No message uses extensions. They are read so that a job which holds one can be told from the
// rest.
enum class Type : std::uint8_t {
  nil,
  boolean,
  integer,
  floating,
  string,
  binary,
  array,
  map,
  extension
};

struct Token {
  Type type = Type::nil;
  bool negative = false;     // integer: `number` holds the two's complement
  std::uint64_t number = 0;  // integer, boolean
  double real = 0;           // floating
  std::string_view bytes;    // string, binary; extension: its type and its data
  std::uint32_t count = 0;   // array: items; map: pairs; they follow as tokens of their own
};

enum class Fault : std::uint8_t { none, truncated, reserved };

class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}
  std::size_t offset() const { return at_; }
  std::size_t left() const { return bytes_.size() - at_; }
  std::string_view bytes() const { return bytes_; }

  Fault next(Token& token) {
    std::uint64_t head = 0;
    if (!take(1, head)) return Fault::truncated;
    const auto b = static_cast<std::uint8_t>(head);
    if (b < 0x80) return integer(token, b, false);
    if (b >= 0xE0) return integer(token, extend(b, 1), true);
    if (b < 0x90) return counted(token, Type::map, b & 0x0Fu);
    if (b < 0xA0) return counted(token, Type::array, b & 0x0Fu);
    if (b < 0xC0) return text(token, Type::string, b & 0x1Fu);
    return long_form(token, b);
  }

 private:
  static std::uint64_t extend(std::uint64_t value, std::size_t width) {
    const unsigned shift = 64 - 8 * static_cast<unsigned>(width);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value << shift) >> shift);
  }

  // A big-endian number of 1, 2, 4 or 8 bytes.
  bool take(std::size_t width, std::uint64_t& value) {
    if (left() < width) return false;
    value = 0;
    for (std::size_t i = 0; i < width; ++i) {
      value = (value << 8) | static_cast<std::uint8_t>(bytes_[at_ + i]);
    }
    at_ += width;
    return true;
  }

  Fault integer(Token& token, std::uint64_t value, bool is_signed) {
    token.type = Type::integer;
    token.number = value;
    token.negative = is_signed && static_cast<std::int64_t>(value) < 0;
    return Fault::none;
  }
  Fault counted(Token& token, Type type, std::uint64_t count) {
    token.type = type;
    token.count = static_cast<std::uint32_t>(count);
    return Fault::none;
  }
  Fault text(Token& token, Type type, std::uint64_t size) {
    if (left() < size) return Fault::truncated;
    token.type = type;
    token.bytes = bytes_.substr(at_, size);
    at_ += size;
    return Fault::none;
  }

  Fault long_form(Token& token, std::uint8_t b) {
    std::uint64_t value = 0;
    switch (b) {
      case 0xC0:
        token.type = Type::nil;
        return Fault::none;
      case 0xC1:
        return Fault::reserved;
      case 0xC2:
      case 0xC3:
        token.type = Type::boolean;
        token.number = b & 1u;
        return Fault::none;
      case 0xC4:
      case 0xC5:
      case 0xC6:
        if (!take(std::size_t{1} << (b - 0xC4), value)) return Fault::truncated;
        return text(token, Type::binary, value);
      case 0xCA:
        if (!take(4, value)) return Fault::truncated;
        token.type = Type::floating;
        token.real = std::bit_cast<float>(static_cast<std::uint32_t>(value));
        return Fault::none;
      case 0xCB:
        if (!take(8, value)) return Fault::truncated;
        token.type = Type::floating;
        token.real = std::bit_cast<double>(value);
        return Fault::none;
      case 0xCC:
      case 0xCD:
      case 0xCE:
      case 0xCF:
        if (!take(std::size_t{1} << (b - 0xCC), value)) return Fault::truncated;
        return integer(token, value, false);
      case 0xD0:
      case 0xD1:
      case 0xD2:
      case 0xD3: {
        const std::size_t width = std::size_t{1} << (b - 0xD0);
        if (!take(width, value)) return Fault::truncated;
        return integer(token, extend(value, width), true);
      }
      case 0xD9:
      case 0xDA:
      case 0xDB:
        if (!take(std::size_t{1} << (b - 0xD9), value)) return Fault::truncated;
        return text(token, Type::string, value);
      case 0xDC:
      case 0xDD:
        if (!take(b == 0xDC ? 2 : 4, value)) return Fault::truncated;
        return counted(token, Type::array, value);
      case 0xDE:
      case 0xDF:
        if (!take(b == 0xDE ? 2 : 4, value)) return Fault::truncated;
        return counted(token, Type::map, value);
      case 0xC7:
      case 0xC8:
      case 0xC9:
        if (!take(std::size_t{1} << (b - 0xC7), value)) return Fault::truncated;
        return text(token, Type::extension, value + 1);
      default:  // 0xD4..0xD8
        return text(token, Type::extension, (std::uint64_t{1} << (b - 0xD4)) + 1);
    }
  }

  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace millrace::msgpack_reader
