#include "engine/core/gguf/metadata_writer.hpp"

namespace millrace::engine {

void MetadataWriter::add(const void* from, std::size_t size) {
  const auto* const bytes = static_cast<const std::byte*>(from);
  pairs_.insert(pairs_.end(), bytes, bytes + size);
}

void MetadataWriter::add_string(std::string_view text) {
  const std::uint64_t size = text.size();
  add(&size, sizeof size);
  add(text.data(), text.size());
}

void MetadataWriter::begin(std::string_view key, ValueType type) {
  ++count_;
  add_string(key);
  add(&type, sizeof type);
}

void MetadataWriter::begin_array(std::string_view key, ValueType element, std::size_t count) {
  begin(key, ValueType::array);
  add(&element, sizeof element);
  const std::uint64_t size = count;
  add(&size, sizeof size);
}

void MetadataWriter::put(std::string_view key, std::uint32_t value) {
  begin(key, ValueType::u32);
  add(&value, sizeof value);
}

void MetadataWriter::put(std::string_view key, std::int32_t value) {
  begin(key, ValueType::i32);
  add(&value, sizeof value);
}

void MetadataWriter::put(std::string_view key, float value) {
  begin(key, ValueType::f32);
  add(&value, sizeof value);
}

void MetadataWriter::put(std::string_view key, bool value) {
  begin(key, ValueType::boolean);
  const std::uint8_t byte = value ? 1 : 0;
  add(&byte, 1);
}

void MetadataWriter::put(std::string_view key, std::string_view value) {
  begin(key, ValueType::string);
  add_string(value);
}

void MetadataWriter::put(std::string_view key, std::span<const std::uint32_t> values) {
  begin_array(key, ValueType::u32, values.size());
  add(values.data(), values.size_bytes());
}

void MetadataWriter::put(std::string_view key, std::span<const std::int32_t> values) {
  begin_array(key, ValueType::i32, values.size());
  add(values.data(), values.size_bytes());
}

void MetadataWriter::put(std::string_view key, std::span<const float> values) {
  begin_array(key, ValueType::f32, values.size());
  add(values.data(), values.size_bytes());
}

void MetadataWriter::put(std::string_view key, const std::vector<bool>& values) {
  begin_array(key, ValueType::boolean, values.size());
  for (const bool value : values) {
    const std::uint8_t byte = value ? 1 : 0;
    add(&byte, 1);
  }
}

void MetadataWriter::put(std::string_view key, std::span<const std::string> values) {
  begin_array(key, ValueType::string, values.size());
  for (const std::string& value : values) add_string(value);
}

void MetadataWriter::put(std::string_view key, const Value& value) {
  begin(key, value.type);
  if (value.type == ValueType::string) {
    const std::uint64_t size = value.bytes.size();
    add(&size, sizeof size);
  } else if (value.type == ValueType::array) {
    add(&value.element, sizeof value.element);
    const std::uint64_t count = value.count;
    add(&count, sizeof count);
  }
  add(value.bytes.data(), value.bytes.size());
}

std::vector<std::byte> MetadataWriter::finish(std::uint64_t tensors) const {
  constexpr std::string_view magic = "GGUF";
  constexpr std::uint32_t version = 3;
  MetadataWriter head;
  head.add(magic.data(), magic.size());
  head.add(&version, sizeof version);
  head.add(&tensors, sizeof tensors);
  head.add(&count_, sizeof count_);
  head.add(pairs_.data(), pairs_.size());
  return std::move(head.pairs_);
}

}  // namespace millrace::engine
