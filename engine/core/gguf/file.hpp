#pragma once
// A GGUF v2/v3 model file, mapped and checked: metadata by key, tensors by name. `open` checks
// every count, offset, length and type against the file, so that users need no checks of their own.
// Given the first part of a split model, it opens all parts as one file: metadata is that of the
// first part, tensors are those of all.
//
//   MILLRACE_ASSIGN(GgufFile file, GgufFile::open(path));
//   MILLRACE_ASSIGN(auto layers, file.metadata().get<std::uint32_t>("llama.block_count"));
//   MILLRACE_ASSIGN(const Tensor* weight, file.tensor("token_embd.weight"));
//
// Errors: gguf_unreadable (cannot be opened or mapped; a part of a split model that is not the
// first, or that is missing), gguf_version (v1, newer, big-endian), gguf_malformed (with the byte,
// key or tensor; a part of another model), unsupported_tensor_type (with tensor and type). Format:
// https://github.com/ggml-org/ggml/blob/master/docs/gguf.md Thread safety: immutable after
// construction; movable, views stay valid when it moves.
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "engine/core/gguf/bytes.hpp"
#include "engine/core/gguf/metadata.hpp"
#include "engine/core/gguf/tensor_type.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Makes rows of a tensor that no file holds as the engine reads them: of a model that is not a GGUF
// file, as an expert's matrices beside each other, or decoded. Thread safety: immutable.
class RowSource {
 public:
  virtual ~RowSource() = default;
  // Writes the tensor's rows from `first` on, as many as fill `out`.
  virtual void read(std::uint64_t first, std::span<std::byte> out) const = 0;
};

struct Tensor {
  std::string_view name;
  TensorType type = TensorType::f32;
  std::uint32_t rank = 0;                          // 1 to 4
  std::array<std::uint64_t, 4> shape{1, 1, 1, 1};  // innermost (contiguous) dimension first
  std::span<const std::byte> data;                 // packed as in the file; empty if rows are made
  std::uint64_t offset = 0;                        // of data, from its part's first byte
  const RowSource* made = nullptr;                 // makes the rows, or null: they are `data`
  std::uint64_t first_made = 0;                    // the source's row that is the tensor's first

  std::uint64_t elements() const { return shape[0] * shape[1] * shape[2] * shape[3]; }
  std::uint64_t rows() const { return elements() / shape[0]; }
  std::uint64_t row_bytes() const;
  std::uint64_t size_bytes() const { return rows() * row_bytes(); }
  // The bytes of `count` rows, which the tensor must have: in place, or made in `scratch`.
  std::span<const std::byte> read(std::uint64_t first, std::uint64_t count,
                                  std::vector<std::byte>& scratch) const;
  // Some rows as a matrix of their own.
  Tensor slice(std::uint64_t first, std::uint64_t count) const;
};

// What a model of another source than GGUF files is put together from (engine/core/hub).
struct ModelPieces {
  struct Piece {
    std::string name;
    TensorType type = TensorType::f32;
    std::vector<std::uint64_t> shape;  // innermost dimension first, 1 to 4
    std::span<const std::byte> data;   // within `parts`; unused if `rows` makes them
    std::unique_ptr<RowSource> rows;
  };
  std::string source;                         // for messages
  std::vector<std::byte> metadata;            // as a GGUF file without tensors
  std::vector<std::unique_ptr<Bytes>> parts;  // that tensors and sources read
  std::vector<Piece> tensors;
  std::string quantized_by;  // the method by which made rows were quantized before; or empty
};

class GgufFile {
 public:
  static Result<GgufFile> open(const std::string& path);
  // `source` names the bytes in messages. They are a whole file, not a part of a split model.
  static Result<GgufFile> parse(std::unique_ptr<Bytes> bytes, std::string source);
  // The parts of the result are the metadata's bytes, then those given. Errors: gguf_malformed.
  static Result<GgufFile> assemble(ModelPieces pieces);

  std::uint32_t version() const { return version_; }
  std::uint32_t alignment() const { return alignment_; }
  const std::string& source() const { return source_; }
  // The bytes of each part, in order; of one, unless the model is split.
  std::span<const std::unique_ptr<Bytes>> parts() const { return parts_; }
  const Metadata& metadata() const { return metadata_; }
  std::span<const Tensor> tensors() const { return tensors_; }  // in file order
  // How the matrices were quantized whose rows are decoded as they are read; empty: they were not.
  const std::string& quantized_by() const { return quantized_by_; }
  const Tensor* find_tensor(std::string_view name) const;     // null: absent
  Result<const Tensor*> tensor(std::string_view name) const;  // absent: gguf_malformed

 private:
  friend class GgufParser;
  GgufFile() = default;
  static Result<GgufFile> parse_part(std::unique_ptr<Bytes> bytes, std::string source);
  Status add_part(GgufFile part);

  std::string source_, quantized_by_;
  std::vector<std::unique_ptr<Bytes>> parts_;
  std::uint32_t version_ = 0;
  std::uint32_t alignment_ = 0;
  Metadata metadata_;
  std::vector<Tensor> tensors_;
  std::vector<ModelPieces::Piece> pieces_;  // own the names and sources of assembled tensors
  std::unordered_map<std::string_view, std::size_t> tensor_index_;
};

}  // namespace millrace::engine
