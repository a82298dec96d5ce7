#pragma once
// `--kv auto`: the policy closest to fp16 whose cache holds the expected load. The rule:
//
//   load   max_batch sequences of kv_expected_tokens each (or of the model's context, if that is
//          less), but at least one whole context
//   ladder f16, q8, k8v4, k6v4, the closest first. Heads of 96 channels do not fit these presets:
//          groups of 64 do not divide them, and no rotation takes them. For them a rung uses groups
//          of 32: q8g32, q8g32/q4g32, q6g32/q4g32. These are a little larger and about as close:
//          on SmolLM2, whose heads have 64 channels, their KLD is 0.0003, 0.0052 and 0.0096, that
//          of the presets 0.0005, 0.0063 and 0.0092 (measured as in schemas/base/kv_policy.cpp).
//          A rung that the heads fit in neither form is skipped.
//   choice the first rung whose cache holds the load in the memory. If none does, the last rung:
//          sequences that do not fit wait for their turn, which costs time but no quality.
//
// Layers that the options protect count as halves. Layers that the outlier test protects do not,
// because that test needs a loaded model, and loading needs a policy. Then the pool holds fewer
// tokens (EngineInfo::kv_pool_tokens), and sequences that do not fit wait.
//
// The ladder ends at k6v4 because a smaller cache shows in the text (KLD 0.04 and more against
// 0.009 on a small model); users must ask for such a policy by name. The choice depends only on the
// model's shape and the options, so equal engines choose alike. Errors: invalid_value for
// protection of a layer that the model does not have. Thread safety: pure functions.
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/core/kv/cache_shape.hpp"

namespace millrace::engine {

inline constexpr std::string_view kv_auto = "auto";  // names the rule in place of a policy

struct KvLoad {
  std::uint64_t memory_bytes = 0;                 // for pages
  std::uint32_t max_batch = 0;                    // sequences at once
  std::uint32_t context_tokens = 0;               // the model's
  std::vector<std::uint32_t> windows{};           // as in CacheShape
  std::vector<std::uint64_t> states{};            // as in CacheShape
  std::uint32_t row_tokens = 0, step_tokens = 0;  // as in CacheLoad
};

inline constexpr std::uint32_t kv_expected_tokens = 2048;  // prompt and output of a sequence

struct KvRung {
  std::string_view policy, in_groups_of_32;
};

struct KvChoice {
  std::string_view policy;         // without the suffix for protected layers
  std::uint64_t load_tokens = 0;   // tokens of the expected load
  std::uint64_t holds_tokens = 0;  // tokens that group 0 holds; windowed ones need no more
  bool fits() const { return holds_tokens >= load_tokens; }
};

std::span<const KvRung> kv_ladder();
Result<KvChoice> choose_kv(const KvShape& shape, const KvLoad& load,
                           const KvProtection& protection = {});

}  // namespace millrace::engine
