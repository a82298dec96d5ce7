#include "engine/core/gguf/metadata.hpp"

#include <array>
#include <bit>
#include <concepts>
#include <limits>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/load.hpp"

namespace millrace::engine {
namespace {

// Calls `use` with an element as its own C++ type. False: the type is not a number.
template <class Use>
bool visit_number(ValueType type, const std::byte* from, Use use) {
  switch (type) {
    case ValueType::u8:
      use(load<std::uint8_t>(from));
      return true;
    case ValueType::i8:
      use(load<std::int8_t>(from));
      return true;
    case ValueType::u16:
      use(load<std::uint16_t>(from));
      return true;
    case ValueType::i16:
      use(load<std::int16_t>(from));
      return true;
    case ValueType::u32:
      use(load<std::uint32_t>(from));
      return true;
    case ValueType::i32:
      use(load<std::int32_t>(from));
      return true;
    case ValueType::u64:
      use(load<std::uint64_t>(from));
      return true;
    case ValueType::i64:
      use(load<std::int64_t>(from));
      return true;
    case ValueType::f32:
      use(load<float>(from));
      return true;
    case ValueType::f64:
      use(load<double>(from));
      return true;
    default:
      return false;
  }
}

// Converts an element to T: to an integer from any integer type if the value fits, to a float from
// float types.
template <class T>
std::optional<T> number_as(ValueType type, const std::byte* from) {
  std::optional<T> result;
  visit_number(type, from, [&]<class From>(From value) {
    if constexpr (std::integral<T> && std::integral<From>) {
      if (std::in_range<T>(value)) result = static_cast<T>(value);
    } else if constexpr (std::floating_point<T> && std::floating_point<From>) {
      result = static_cast<T>(value);
    }
  });
  return result;
}

std::string describe(const Value& value) {
  if (value.type != ValueType::array) return std::string(value_type_name(value.type));
  return "array of " + std::to_string(value.count) + " " +
         std::string(value_type_name(value.element));
}

template <class T>
struct Reader {
  static constexpr std::string_view wanted =
      std::integral<T>
          ? (std::is_unsigned_v<T> ? "an unsigned integer that fits" : "an integer that fits")
          : "a floating-point number";
  static std::optional<T> read(const Value& value) {
    return number_as<T>(value.type, value.bytes.data());
  }
};

template <>
struct Reader<bool> {
  static constexpr std::string_view wanted = "a bool";
  static std::optional<bool> read(const Value& value) {
    if (value.type != ValueType::boolean) return std::nullopt;
    return value.bytes[0] != std::byte{0};
  }
};

template <>
struct Reader<std::string_view> {
  static constexpr std::string_view wanted = "a string";
  static std::optional<std::string_view> read(const Value& value) {
    if (value.type != ValueType::string) return std::nullopt;
    return text_of(value.bytes);
  }
};

template <class T>
struct Reader<std::vector<T>> {
  static constexpr std::string_view wanted =
      std::integral<T> ? "an array of integers that fit" : "an array of floating-point numbers";
  static std::optional<std::vector<T>> read(const Value& value) {
    if (value.type != ValueType::array) return std::nullopt;
    const auto size = scalar_bytes(value.element);
    std::vector<T> result;
    result.reserve(size == 0 ? 0 : value.count);
    for (std::uint64_t i = 0; i < value.count; ++i) {
      const auto element = number_as<T>(value.element, value.bytes.data() + i * size);
      if (!element) return std::nullopt;
      result.push_back(*element);
    }
    return result;
  }
};

template <>
struct Reader<std::vector<std::string_view>> {
  static constexpr std::string_view wanted = "an array of strings";
  static std::optional<std::vector<std::string_view>> read(const Value& value) {
    if (value.type != ValueType::array || value.element != ValueType::string) return std::nullopt;
    std::vector<std::string_view> result;
    result.reserve(value.count);
    std::size_t position = 0;  // the parser has checked every length
    for (std::uint64_t i = 0; i < value.count; ++i) {
      const auto length = load<std::uint64_t>(value.bytes.data() + position);
      position += sizeof length;
      result.push_back(text_of(value.bytes.subspan(position, length)));
      position += length;
    }
    return result;
  }
};

}  // namespace

std::string_view value_type_name(ValueType type) {
  static constexpr std::array<std::string_view, 13> kNames{"u8",  "i8",  "u16",  "i16",    "u32",
                                                           "i32", "f32", "bool", "string", "array",
                                                           "u64", "i64", "f64"};
  const auto number = static_cast<std::size_t>(type);
  return number < kNames.size() ? kNames[number] : "unknown";
}

const Value* Metadata::raw(std::string_view key) const {
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

template <class T>
Result<T> Metadata::get(std::string_view key) const {
  const Value* value = raw(key);
  if (value == nullptr)
    return fail(Code::gguf_malformed, source_ + ": metadata key '" + printable(key) + "' is absent",
                "convert the model again with a current converter");
  if (auto result = Reader<T>::read(*value)) return *std::move(result);
  return fail(Code::gguf_malformed,
              source_ + ": metadata key '" + printable(key) + "' at byte " +
                  std::to_string(value->offset) + " holds " + describe(*value) + ", wanted " +
                  std::string(Reader<T>::wanted),
              "convert the model again with a current converter");
}

template Result<std::uint32_t> Metadata::get(std::string_view) const;
template Result<std::uint64_t> Metadata::get(std::string_view) const;
template Result<std::int64_t> Metadata::get(std::string_view) const;
template Result<float> Metadata::get(std::string_view) const;
template Result<double> Metadata::get(std::string_view) const;
template Result<bool> Metadata::get(std::string_view) const;
template Result<std::string_view> Metadata::get(std::string_view) const;
template Result<std::vector<std::uint32_t>> Metadata::get(std::string_view) const;
template Result<std::vector<std::int32_t>> Metadata::get(std::string_view) const;
template Result<std::vector<float>> Metadata::get(std::string_view) const;
template Result<std::vector<std::string_view>> Metadata::get(std::string_view) const;

}  // namespace millrace::engine
