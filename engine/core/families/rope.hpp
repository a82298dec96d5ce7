#pragma once
// Reads how layers rotate: base, partial heads, and the ways to stretch a context (linear, llama
// 3's divisors, YaRN, longrope). Internal. Errors: gguf_malformed, unsupported_architecture.
// Thread safety: pure function.
#include <cstdint>

#include "engine/core/families/family.hpp"
#include "engine/core/families/keys.hpp"
#include "engine/core/families/spec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// The channels of heads in layers that see all positions, and in those with a window.
struct HeadDims {
  std::uint32_t all = 0, windowed = 0;
};
struct Ropes {
  RopeSpec all;       // of layers that see all positions
  RopeSpec windowed;  // of layers with a window
};
// `context` is the model's own: longrope's factors are chosen by it, not by the length of a prompt,
// because cached keys must not change as a sequence grows.
Result<Ropes> read_ropes(Keys& keys, const Family& family, HeadDims head_dims,
                         std::uint32_t context);

// The context that the model had before it was stretched; without the key, all of it.
Result<std::uint32_t> read_original_tokens(Keys& keys, std::uint32_t context);

}  // namespace millrace::engine
