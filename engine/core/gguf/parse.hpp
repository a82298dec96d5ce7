#pragma once
// Reads a file's header into a GgufFile. Only file.cpp uses it. Call `run` once for each parser.
#include <cstdint>
#include <memory>
#include <string>

#include "engine/core/gguf/cursor.hpp"
#include "engine/core/gguf/file.hpp"

namespace millrace::engine {

class GgufParser {
 public:
  GgufParser(std::unique_ptr<Bytes> bytes, std::string source);
  Result<GgufFile> run();

 private:
  Status parse_all();
  Status parse_header();
  Status parse_metadata();
  Status parse_pair(std::uint64_t number);
  Result<Value> parse_value();
  Status parse_array(Value& value);
  Status check_elements(const Value& value, std::uint64_t start);
  Status parse_alignment();
  Status parse_tensors();
  Status parse_tensor(Tensor& tensor);
  Result<std::uint64_t> parse_tensor_bytes(Tensor& tensor);
  Status place_tensors();
  Status check_overlap() const;

  std::span<const std::byte> view() const { return file_.parts_[0]->view(); }

  GgufFile file_;
  Cursor cursor_;
  std::uint64_t pair_count_ = 0, tensor_count_ = 0;
};

}  // namespace millrace::engine
