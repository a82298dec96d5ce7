#pragma once
// Writes small GGUF files for tests, byte by byte. It checks nothing, so it also writes wrong ones.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/gguf/metadata.hpp"
#include "engine/core/gguf/tensor_type.hpp"

namespace millrace::testing {

class GgufBuilder {
 public:
  std::uint32_t magic = 0x46554747, version = 3, alignment = 32;

  template <class T>
  static void append(std::vector<std::byte>& to, T value) {
    const auto size = to.size();
    to.resize(size + sizeof value);
    std::memcpy(to.data() + size, &value, sizeof value);
  }
  static void append_string(std::vector<std::byte>& to, std::string_view text) {
    append<std::uint64_t>(to, text.size());
    for (const char c : text) to.push_back(static_cast<std::byte>(c));
  }

  template <class T>
  GgufBuilder& scalar(std::string_view key, engine::ValueType type, T value) {
    append_string(pairs_, key);
    append(pairs_, static_cast<std::uint32_t>(type));
    append(pairs_, value);
    ++pair_count;
    return *this;
  }
  GgufBuilder& u32(std::string_view key, std::uint32_t value) {
    return scalar(key, engine::ValueType::u32, value);
  }
  GgufBuilder& f32(std::string_view key, float value) {
    return scalar(key, engine::ValueType::f32, value);
  }
  GgufBuilder& boolean(std::string_view key, bool value) {
    return scalar(key, engine::ValueType::boolean, static_cast<std::uint8_t>(value));
  }
  GgufBuilder& string(std::string_view key, std::string_view value) {
    append_string(pairs_, key);
    append(pairs_, static_cast<std::uint32_t>(engine::ValueType::string));
    append_string(pairs_, value);
    ++pair_count;
    return *this;
  }
  GgufBuilder& strings(std::string_view key, const std::vector<std::string>& values) {
    array_head(key, engine::ValueType::string, values.size());
    for (const auto& value : values) append_string(pairs_, value);
    return *this;
  }
  template <class T>
  GgufBuilder& array(std::string_view key, engine::ValueType element,
                     const std::vector<T>& values) {
    array_head(key, element, values.size());
    for (const T value : values) append(pairs_, value);
    return *this;
  }
  // Adds raw bytes in place of pairs; the caller adds their number to pair_count.
  GgufBuilder& raw_pair_bytes(std::span<const std::byte> bytes) {
    pairs_.insert(pairs_.end(), bytes.begin(), bytes.end());
    return *this;
  }

  // Adds a tensor. The header says that its data follows the previous tensor, aligned, unless
  // `offset` says otherwise.
  GgufBuilder& tensor(std::string_view name, const std::vector<std::uint64_t>& shape,
                      std::uint32_t type, std::span<const std::byte> data,
                      std::int64_t offset = -1) {
    append_string(entries_, name);
    append(entries_, static_cast<std::uint32_t>(shape.size()));
    for (const auto size : shape) append(entries_, size);
    append(entries_, type);
    data_.resize((data_.size() + alignment - 1) / alignment * alignment);
    append(entries_, offset < 0 ? static_cast<std::uint64_t>(data_.size())
                                : static_cast<std::uint64_t>(offset));
    data_.insert(data_.end(), data.begin(), data.end());
    ++tensor_count;
    return *this;
  }

  std::vector<std::byte> build() const {
    std::vector<std::byte> file;
    append(file, magic);
    append(file, version);
    append(file, tensor_count);
    append(file, pair_count);
    file.insert(file.end(), pairs_.begin(), pairs_.end());
    file.insert(file.end(), entries_.begin(), entries_.end());
    file.resize((file.size() + alignment - 1) / alignment * alignment);
    file.insert(file.end(), data_.begin(), data_.end());
    return file;
  }

  std::uint64_t tensor_count = 0, pair_count = 0;  // written as they are; a test may change them

 private:
  void array_head(std::string_view key, engine::ValueType element, std::size_t count) {
    append_string(pairs_, key);
    append(pairs_, static_cast<std::uint32_t>(engine::ValueType::array));
    append(pairs_, static_cast<std::uint32_t>(element));
    append<std::uint64_t>(pairs_, count);
    ++pair_count;
  }

  std::vector<std::byte> pairs_, entries_, data_;
};

}  // namespace millrace::testing
