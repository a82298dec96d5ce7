#pragma once
// The names of the parts of a model that is split into several GGUF files: STEM-00001-of-00003.gguf
// and so on, from 1, as llama-gguf-split and the converters write them.
// Thread safety: plain values.
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace millrace {

struct SplitName {
  std::string stem;  // the path without "-00001-of-00003.gguf"
  std::uint32_t number = 0, count = 0;

  std::string part(std::uint32_t other) const;  // the path of another part
};

// Nothing: the path does not end like a part's, or its number is not from 1 to the count.
std::optional<SplitName> split_name(std::string_view path);

}  // namespace millrace
