#pragma once
// Builds the state that the device keeps of a row whose logits are edited: the edits, the tokens so
// far, and tables that count them. It is built from the tokens that the host knows. From then on
// kernels/sampler/edits.cl adds each drawn token, and its words stay equal to those that would be
// built here. Thread safety: pure functions.
#include <bit>
#include <cstdint>
#include <span>
#include <vector>

#include "schemas/base/generation.hpp"

namespace millrace::engine {

struct RowHistory {
  std::span<const TokenId> prompt, output;
  std::uint32_t capacity = 0;  // the most tokens that prompt and output will have
};

struct RowState {
  std::vector<std::uint32_t> words;  // the state; kernels/sampler/state.h has its header
  std::uint32_t scratch = 0;         // number of words of scratch memory after it
};

// A float as a word of a task or a state.
inline std::uint32_t word(float value) {
  return std::bit_cast<std::uint32_t>(value);
}

// `log` adds room for logits before their edits, which raw logprobs of drawn tokens need. All ids
// must be below the vocabulary, and the edits within their ranges (schemas/base/check_request.hpp).
RowState build_row_state(const LogitEdits& edits, const RowHistory& history, bool log);

}  // namespace millrace::engine
