#pragma once
// `--kv auto`: the policy closest to fp16 whose cache holds the expected load. The rule:
//
//   load   max_batch sequences at once of expected_tokens each, and at least one of the model's
//          whole context; never more than max_batch of the whole context
//   ladder f16, q8, k8v4, k6v4, from the closest on. Heads that a rung cannot store, those of 96
//          channels, which groups of 64 do not divide and no rotation takes, have its like in
//          groups of 32 for it: q8g32, q8g32/q4g32, q6g32/q4g32. They are a little larger and
//          about as close: KLD 0.0003, 0.0052 and 0.0096 on SmolLM2, whose heads of 64 have 0.0005,
//          0.0063 and 0.0092 of the presets (measured as in schemas/base/kv_policy.cpp). Heads that
//          cannot be stored in these either pass the rung over.
//   choice the first rung whose load fits the memory; where none does, the last, as sequences that
//          do not fit wait for their turn: that costs time, but no quality
//
// Layers that the options protect count as halves. Those that the outlier test protects do not:
// they are known when the model has been loaded, and that needs a policy. The pool holds less then
// (EngineInfo::kv_pool_tokens), and sequences that do not fit wait.
//
// It ends at k6v4 because a smaller cache shows in the text (KLD 0.04 and more against 0.009 on a
// small model): that is asked for by name, never chosen. The choice depends on nothing but the
// model's shape and the options, so a fleet of equal engines makes the same. Errors: invalid_value
// for protection of a layer that the model does not have. Thread safety: pure.
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

struct KvRung {
  std::string_view policy, in_groups_of_32;
};

struct KvChoice {
  std::string_view policy;         // without what is protected
  std::uint64_t load_tokens = 0;   // that were to fit
  std::uint64_t holds_tokens = 0;  // that do
  bool fits() const { return holds_tokens >= load_tokens; }
};

std::span<const KvRung> kv_ladder();
Result<KvChoice> choose_kv(const KvShape& shape, const KvLoad& load,
                           const KvProtection& protection = {});

}  // namespace millrace::engine
