#pragma once
// A safetensors file, mapped and checked: tensors by name. Layout: the header's length as u64, the
// header (a JSON object: name -> dtype, shape, data_offsets), then the tensors' bytes without gaps.
//
// Errors: folder_unreadable (cannot be opened), folder_malformed (cut short, a header that is not
// what the format says, tensors that overlap, leave gaps, or have another size than their shape;
// with the file and the tensor). Thread safety: immutable.
// Format: https://github.com/huggingface/safetensors
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/gguf/bytes.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

enum class HubType : std::uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8_e4m3,
  f8_e5m2,
  f8_e8m0,
  i64,
  i32,
  i16,
  i8,
  u64,
  u32,
  u16,
  u8,
  boolean,
};
std::string_view hub_type_name(HubType type);
std::uint32_t hub_type_bytes(HubType type);

struct HubTensor {
  HubType type = HubType::f32;
  std::vector<std::uint64_t> shape;  // outermost dimension first; empty: one value
  std::span<const std::byte> data;   // at any alignment

  std::uint64_t elements() const;
};

using HubTensors = std::map<std::string, HubTensor, std::less<>>;

// Reads the header of a file whose bytes stay alive; `source` names it in messages.
Result<HubTensors> parse_safetensors(std::span<const std::byte> bytes, const std::string& source);

}  // namespace millrace::engine
