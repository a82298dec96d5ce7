#include "engine/core/gguf/write.hpp"

#include <array>
#include <cstring>

#include "engine/core/gguf/cursor.hpp"

namespace millrace::engine {
namespace {

template <class T>
void put(std::string& to, T value) {
  std::array<char, sizeof value> bytes;
  std::memcpy(bytes.data(), &value, sizeof value);
  to.append(bytes.data(), bytes.size());
}

// A text is its length and its bytes.
void put_text(std::string& to, std::string_view text) {
  put<std::uint64_t>(to, text.size());
  to += text;
}

void put_type(std::string& to, ValueType type) {
  put(to, static_cast<std::uint32_t>(type));
}

std::uint64_t aligned(std::uint64_t size, std::uint32_t alignment) {
  return (size + alignment - 1) / alignment * alignment;
}

}  // namespace

std::uint64_t tensor_bytes(TensorType type, std::span<const std::uint64_t> shape) {
  const TensorTypeTraits& traits = traits_of(type);
  std::uint64_t size = shape[0] / traits.block_elements * traits.block_bytes;
  for (const std::uint64_t more : shape.subspan(1)) size *= more;
  return size;
}

void GgufHead::add(std::string_view key, const Value& value) {
  put_text(pairs_, key);
  put_type(pairs_, value.type);
  if (value.type == ValueType::string) {
    put<std::uint64_t>(pairs_, value.bytes.size());
  } else if (value.type == ValueType::array) {
    put_type(pairs_, value.element);
    put(pairs_, value.count);
  }
  pairs_ += text_of(value.bytes);
  ++pair_count_;
}

void GgufHead::add(std::string_view key, std::uint32_t value) {
  put_text(pairs_, key);
  put_type(pairs_, ValueType::u32);
  put(pairs_, value);
  ++pair_count_;
}

void GgufHead::add_tensor(std::string_view name, TensorType type,
                          std::span<const std::uint64_t> shape) {
  tensors_.push_back({std::string(name), type, {shape.begin(), shape.end()}});
}

GgufLayout GgufHead::finish(std::uint32_t alignment) const {
  constexpr std::uint32_t version = 3;
  GgufLayout layout;
  layout.head = "GGUF";
  put(layout.head, version);
  put<std::uint64_t>(layout.head, tensors_.size());
  put(layout.head, pair_count_);
  layout.head += pairs_;
  std::uint64_t offset = 0;  // in the section of tensors
  for (const Entry& tensor : tensors_) {
    put_text(layout.head, tensor.name);
    put(layout.head, static_cast<std::uint32_t>(tensor.shape.size()));
    for (const std::uint64_t size : tensor.shape) put(layout.head, size);
    put(layout.head, static_cast<std::uint32_t>(tensor.type));
    put(layout.head, offset);
    layout.offsets.push_back(offset);
    offset += aligned(tensor_bytes(tensor.type, tensor.shape), alignment);
  }
  layout.head.resize(aligned(layout.head.size(), alignment));
  for (std::uint64_t& each : layout.offsets) each += layout.head.size();
  layout.file_bytes = layout.head.size() + offset;
  return layout;
}

}  // namespace millrace::engine
