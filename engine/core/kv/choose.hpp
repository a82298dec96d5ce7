#pragma once
// `--kv auto`: the policy closest to fp16 whose cache holds the expected load. The rule:
//
//   load   max_batch sequences at once of expected_tokens each, and at least one of the model's
//          whole context; never more than max_batch of the whole context
//   ladder f16, q8, k8v4, k6v4, from the closest on; what the model's heads cannot be stored in is
//          passed over
//   choice the first rung whose load fits the memory; where none does, the last, as sequences that
//          do not fit wait for their turn: that costs time, but no quality
//
// It ends at k6v4 because a smaller cache shows in the text (KLD 0.04 and more against 0.009 on a
// small model): that is asked for by name, never chosen. The choice depends on nothing but the
// model's shape and the options, so a fleet of equal engines makes the same. Thread safety: pure.
#include <cstdint>
#include <span>
#include <string_view>

#include "engine/core/kv/policy.hpp"

namespace millrace::engine {

inline constexpr std::string_view kv_auto = "auto";  // the name of the rule among policies

struct KvLoad {
  std::uint64_t memory_bytes = 0;    // of the pages
  std::uint32_t max_batch = 0;       // sequences at once
  std::uint32_t context_tokens = 0;  // the model's
};

inline constexpr std::uint32_t kv_expected_tokens = 2048;  // of a sequence, prompt and output

struct KvChoice {
  std::string_view preset;
  std::uint64_t load_tokens = 0;   // that were to fit
  std::uint64_t holds_tokens = 0;  // that do
  bool fits() const { return holds_tokens >= load_tokens; }
};

std::span<const std::string_view> kv_ladder();
KvChoice choose_kv(const KvShape& shape, const KvLoad& load);

}  // namespace millrace::engine
