#include "engine/core/gguf/cursor.hpp"

namespace millrace::engine {

std::string printable(std::string_view text) {
  static constexpr std::size_t kLongest = 80;
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string result;
  for (const char c : text.substr(0, kLongest)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      result += c;
    } else {
      result += "\\x";
      result += kDigits[byte >> 4];
      result += kDigits[byte & 15];
    }
  }
  if (text.size() > kLongest) result += "...";
  return result;
}

std::size_t scalar_bytes(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::string:
    case ValueType::array:
      return 0;
  }
  return 0;
}

std::unexpected<Error> malformed(std::uint64_t offset, const std::string& reason) {
  return fail(Code::gguf_malformed, "at byte " + std::to_string(offset) + ": " + reason,
              "the file is damaged or not a GGUF model: download or convert it again");
}

Result<std::span<const std::byte>> Cursor::take(std::uint64_t size, std::string_view what) {
  if (size > left())
    return malformed(position_, std::string(what) + " needs " + std::to_string(size) +
                                    " bytes, the file has " + std::to_string(left()) + " left");
  const auto result = bytes_.subspan(position_, size);
  position_ += size;
  return result;
}

Result<std::string_view> Cursor::string(std::uint64_t limit, std::string_view what) {
  const auto start = position_;
  MILLRACE_ASSIGN(const auto length, read<std::uint64_t>(what));
  if (length > limit)
    return malformed(start, std::string(what) + " claims " + std::to_string(length) +
                                " bytes, at most " + std::to_string(limit) + " are allowed");
  MILLRACE_ASSIGN(const auto bytes, take(length, what));
  return text_of(bytes);
}

}  // namespace millrace::engine
