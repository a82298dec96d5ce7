#pragma once
// The metadata of a GGUF file, read by key and type. Values point into the file's bytes and are
// valid as long as the GgufFile that owns them. Errors: gguf_malformed, naming the key, the type
// found and the type wanted. Thread safety: immutable.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::engine {

// The numbers are those in the file.
enum class ValueType : std::uint32_t {
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  f32,
  boolean,
  string,
  array,
  u64,
  i64,
  f64,
};
std::string_view value_type_name(ValueType type);

// One checked value, still in the file's encoding.
struct Value {
  ValueType type = ValueType::u8;
  ValueType element = ValueType::u8;  // type of an array's elements
  std::uint64_t count = 1;            // number of an array's elements
  std::span<const std::byte> bytes;   // a scalar, a string's text, or an array's elements
  std::uint64_t offset = 0;           // in the file, for messages
};

class Metadata {
 public:
  // T is one of: std::uint32_t, std::uint64_t, std::int64_t (read from any integer type, if the
  // value fits), float, double (read from f32 and f64), bool, std::string_view, and vectors of
  // std::uint32_t, std::int32_t, float and std::string_view.
  template <class T>
  Result<T> get(std::string_view key) const;  // absent: an error

  template <class T>
  Result<std::optional<T>> find(std::string_view key) const {  // absent: nothing
    if (!contains(key)) return std::optional<T>();
    auto value = get<T>(key);
    if (!value) return std::unexpected(std::move(value).error());
    return std::optional<T>(*std::move(value));
  }

  template <class T>
  Result<T> get_or(std::string_view key, T fallback) const {
    if (!contains(key)) return fallback;
    return get<T>(key);
  }

  bool contains(std::string_view key) const { return values_.contains(key); }
  const Value* raw(std::string_view key) const;
  std::span<const std::string_view> keys() const { return keys_; }  // in file order

 private:
  friend class GgufParser;
  std::string source_;  // the file's name, for messages
  std::vector<std::string_view> keys_;
  std::unordered_map<std::string_view, Value> values_;
};

}  // namespace millrace::engine
