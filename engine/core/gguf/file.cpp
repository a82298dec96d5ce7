#include "engine/core/gguf/file.hpp"

#include <algorithm>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/parse.hpp"
#include "engine/core/gguf/split.hpp"

namespace millrace::engine {

std::uint64_t Tensor::row_bytes() const {
  const TensorTypeTraits& traits = traits_of(type);
  return shape[0] / traits.block_elements * traits.block_bytes;
}

std::span<const std::byte> Tensor::read(std::uint64_t first, std::uint64_t count,
                                        std::vector<std::byte>& scratch) const {
  const std::uint64_t bytes = row_bytes();
  if (made == nullptr) return data.subspan(first * bytes, count * bytes);
  scratch.resize(count * bytes);
  made->read(first_made + first, scratch);
  return scratch;
}

Tensor Tensor::slice(std::uint64_t first, std::uint64_t count) const {
  Tensor out = *this;
  out.rank = 2;
  out.shape = {shape[0], count, 1, 1};
  if (made == nullptr) {
    out.data = data.subspan(first * row_bytes(), count * row_bytes());
    out.offset += first * row_bytes();
  } else {
    out.first_made += first;
  }
  return out;
}

Result<GgufFile> GgufFile::open(const std::string& path) {
  MILLRACE_ASSIGN(auto first_bytes, map_file(path));
  MILLRACE_ASSIGN(GgufFile file, parse_part(std::move(first_bytes), path));
  MILLRACE_ASSIGN(const Split split, read_split(file));
  if (split.count == 1) return file;
  MILLRACE_ASSIGN(const SplitName name, name_of_first(path, split));
  for (std::uint32_t number = 2; number <= split.count; ++number) {
    MILLRACE_ASSIGN(auto bytes, map_part(name, number));
    MILLRACE_ASSIGN(GgufFile part, parse_part(std::move(bytes), name.part(number)));
    MILLRACE_TRY(check_part(part, split, number));
    MILLRACE_TRY(file.add_part(std::move(part)));
  }
  MILLRACE_TRY(check_tensor_count(file, split));
  return file;
}

Result<GgufFile> GgufFile::parse(std::unique_ptr<Bytes> bytes, std::string source) {
  MILLRACE_ASSIGN(GgufFile file, parse_part(std::move(bytes), std::move(source)));
  MILLRACE_ASSIGN(const Split split, read_split(file));
  if (split.count == 1) return file;
  return refuse_alone(file.source_, split);
}

Result<GgufFile> GgufFile::assemble(ModelPieces from) {
  MILLRACE_ASSIGN(GgufFile file, parse(bytes_of(std::move(from.metadata)), from.source));
  for (auto& part : from.parts) file.parts_.push_back(std::move(part));
  file.pieces_ = std::move(from.tensors);
  file.quantized_by_ = std::move(from.quantized_by);
  for (const ModelPieces::Piece& piece : file.pieces_) {
    Tensor tensor;
    tensor.name = piece.name;
    tensor.type = piece.type;
    tensor.made = piece.rows.get();
    tensor.rank = static_cast<std::uint32_t>(piece.shape.size());
    std::ranges::copy(piece.shape, tensor.shape.begin());
    if (piece.rows == nullptr) tensor.data = piece.data;
    if (!file.tensor_index_.emplace(tensor.name, file.tensors_.size()).second) {
      return fail(
          not_of_this_model(file.source_, "has the tensor '" + printable(tensor.name) + "' twice"));
    }
    file.tensors_.push_back(tensor);
  }
  return file;
}

Result<GgufFile> GgufFile::parse_part(std::unique_ptr<Bytes> bytes, std::string source) {
  return GgufParser(std::move(bytes), std::move(source)).run();
}

// Takes over the bytes and tensors of a further part.
Status GgufFile::add_part(GgufFile part) {
  for (const Tensor& tensor : part.tensors_) {
    if (!tensor_index_.emplace(tensor.name, tensors_.size()).second) {
      return fail(not_of_this_model(
          part.source_, "has the tensor '" + printable(tensor.name) + "' of an earlier part"));
    }
    tensors_.push_back(tensor);
  }
  parts_.push_back(std::move(part.parts_[0]));
  return {};
}

const Tensor* GgufFile::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

Result<const Tensor*> GgufFile::tensor(std::string_view name) const {
  if (const Tensor* found = find_tensor(name)) return found;
  return fail(Code::gguf_malformed, source_ + ": tensor '" + printable(name) + "' is absent",
              "the file does not hold a whole model: download or convert it again");
}

}  // namespace millrace::engine
