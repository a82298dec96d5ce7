#pragma once
// Lays out a GGUF v3 file: its head, which holds the metadata and the directory of tensors, and
// where each tensor's bytes belong. The head is small and made in memory; the bytes of tensors are
// the caller's to write, in any order and in pieces. Format:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
//
//   GgufHead head;
//   for (const std::string_view key : metadata.keys()) head.add(key, *metadata.raw(key));
//   head.add_tensor("token_embd.weight", TensorType::q8_0, shape);
//   const GgufLayout layout = head.finish(32);
//
// Thread safety: one owner.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/gguf/metadata_writer.hpp"
#include "engine/core/gguf/tensor_type.hpp"

namespace millrace::engine {

struct GgufLayout {
  std::string head;                    // the file's first bytes
  std::vector<std::uint64_t> offsets;  // of each tensor's bytes from the file's first byte
  std::uint64_t file_bytes = 0;        // what no tensor covers behind the head is zero
};

// The bytes of a tensor, whose innermost dimension is whole blocks of the type.
std::uint64_t tensor_bytes(TensorType type, std::span<const std::uint64_t> shape);

class GgufHead {
 public:
  // Adds a pair after the others.
  void add(std::string_view key, const Value& value) { pairs_.put(key, value); }
  void add(std::string_view key, std::uint32_t value) { pairs_.put(key, value); }
  // Adds a tensor behind the others. `shape` has 1 to 4 dimensions, the innermost first.
  void add_tensor(std::string_view name, TensorType type, std::span<const std::uint64_t> shape);
  // `alignment` is that of `general.alignment` if there is such a pair, and 32 otherwise.
  GgufLayout finish(std::uint32_t alignment) const;

 private:
  struct Entry {
    std::string name;
    TensorType type;
    std::vector<std::uint64_t> shape;
  };
  MetadataWriter pairs_;
  std::vector<Entry> tensors_;
};

}  // namespace millrace::engine
