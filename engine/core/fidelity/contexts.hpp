#pragma once
// A text as contexts of equal size, each read from its first token on. In each context the
// positions from `first` to the last but one are scored; the token after the last one is not known.
// Thread safety: plain values and pure functions.
#include <cstdint>
#include <span>

#include "schemas/base/error.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

struct FidelityContexts {
  Tokens tokens;            // whole contexts, one after the other
  std::uint32_t size = 0;   // tokens of each
  std::uint32_t first = 0;  // first scored position of each

  std::uint32_t count() const { return static_cast<std::uint32_t>(tokens.size()) / size; }
  std::uint32_t scored_each() const { return size - 1 - first; }
  std::uint32_t positions() const { return count() * scored_each(); }
  std::span<const TokenId> context(std::uint32_t index) const {
    return std::span(tokens).subspan(std::size_t{index} * size, size);
  }
};

// Fewer have nothing to score.
constexpr std::uint32_t least_context_tokens = 4;

struct CutOptions {
  std::uint32_t size = 512;
  std::uint32_t most = 0;   // most contexts; 0: all that the text gives
  bool all_scored = false;  // false: only the second half of each is scored
  Tokens prefix{};          // begins each context, before the text (a model's BOS)
};
// Cuts a text; tokens that do not fill a context are not used. Errors: invalid_value for a text too
// short for one context, or a context too short to score anything; invalid_token, naming id and
// position.
Result<FidelityContexts> cut_contexts(std::span<const TokenId> tokens, const CutOptions& options,
                                      std::uint32_t vocabulary);

}  // namespace millrace::engine
