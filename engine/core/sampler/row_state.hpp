#pragma once
// What the device keeps of a row whose logits are edited: the edits themselves, the tokens so far,
// and tables that count them. This builds it from the tokens that the host knows; from then on
// kernels/sampler/edits.cl takes each drawn token in, and its words stay equal to what would be
// built here. Thread safety: pure.
#include <cstdint>
#include <span>
#include <vector>

#include "schemas/base/generation.hpp"

namespace millrace::engine {

struct RowHistory {
  std::span<const TokenId> prompt, output;
  std::uint32_t capacity = 0;  // tokens that prompt and output will ever have
};

struct RowState {
  std::vector<std::uint32_t> words;  // what is kept
  std::uint32_t scratch = 0;         // words behind those, without content
};

// `log`: room to remember logits before their edits, for raw logprobs of drawn tokens. All ids must
// be below the vocabulary, and the edits within their ranges (schemas/base/check_request.hpp).
RowState build_row_state(const LogitEdits& edits, const RowHistory& history, bool log);

}  // namespace millrace::engine
