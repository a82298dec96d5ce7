#pragma once
// Writes metadata as the beginning of a GGUF file. Without tensors it is a whole file, whose reader
// checks it.
//
//   MetadataWriter out;
//   out.put("general.architecture", std::string_view("llama"));
//   out.put("llama.block_count", std::uint32_t{4});
//   GgufFile::parse(bytes_of(out.finish()), "name");
//
// Thread safety: one owner.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/gguf/metadata.hpp"

namespace millrace::engine {

class MetadataWriter {
 public:
  // A key must not be written twice; the reader refuses it.
  void put(std::string_view key, std::uint32_t value);
  void put(std::string_view key, std::int32_t value);
  void put(std::string_view key, float value);
  void put(std::string_view key, bool value);
  void put(std::string_view key, std::string_view value);
  void put(std::string_view key, const std::string& value) { put(key, std::string_view(value)); }
  void put(std::string_view key, const char* value) { put(key, std::string_view(value)); }
  void put(std::string_view key, std::span<const std::uint32_t> values);
  void put(std::string_view key, std::span<const std::int32_t> values);
  void put(std::string_view key, std::span<const float> values);
  void put(std::string_view key, const std::vector<bool>& values);
  void put(std::string_view key, std::span<const std::string> values);
  // Takes over a value as it is: its bytes are in the file's encoding already.
  void put(std::string_view key, const Value& value);

  // Version 3. The directory of so many tensors follows.
  std::vector<std::byte> finish(std::uint64_t tensors = 0) const;

 private:
  void begin(std::string_view key, ValueType type);
  void begin_array(std::string_view key, ValueType element, std::size_t count);
  void add(const void* from, std::size_t size);
  void add_string(std::string_view text);

  std::vector<std::byte> pairs_;
  std::uint64_t count_ = 0;
};

}  // namespace millrace::engine
