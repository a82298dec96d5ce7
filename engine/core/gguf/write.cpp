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

void GgufHead::add_tensor(std::string_view name, TensorType type,
                          std::span<const std::uint64_t> shape) {
  tensors_.push_back({std::string(name), type, {shape.begin(), shape.end()}});
}

GgufLayout GgufHead::finish(std::uint32_t alignment) const {
  GgufLayout layout;
  layout.head = text_of(pairs_.finish(tensors_.size()));
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
