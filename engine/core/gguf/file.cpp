#include "engine/core/gguf/file.hpp"

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/parse.hpp"

namespace millrace::engine {

Result<GgufFile> GgufFile::open(const std::string& path) {
  MILLRACE_ASSIGN(auto bytes, map_file(path));
  return parse(std::move(bytes), path);
}

Result<GgufFile> GgufFile::parse(std::unique_ptr<Bytes> bytes, std::string source) {
  return GgufParser(std::move(bytes), std::move(source)).run();
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
