#include "engine/core/gguf/file.hpp"

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/parse.hpp"
#include "engine/core/gguf/split.hpp"

namespace millrace::engine {

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
