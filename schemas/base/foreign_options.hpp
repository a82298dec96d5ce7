#pragma once
// The options of other engines' command lines that have another name here, for people who come from
// vLLM, llama.cpp or llama-server and type what they know. Thread safety: pure functions.
#include <span>
#include <string_view>

namespace millrace {

struct ForeignOption {
  std::string_view theirs, ours;  // without the dashes
};

std::span<const ForeignOption> foreign_options();

}  // namespace millrace
