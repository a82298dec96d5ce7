#include "engine/core/kv/choose.hpp"

#include <algorithm>
#include <array>

namespace millrace::engine {
namespace {

constexpr std::array<KvRung, 4> ladder{
    {{"f16", "f16"}, {"q8", "q8g32"}, {"k8v4", "q8g32/q4g32"}, {"k6v4", "q6g32/q4g32"}}};

// The tokens, in whole pages, that the memory holds. Errors: those of resolve().
Result<std::uint64_t> held_tokens(std::string_view name, const KvProtection& protection,
                                  const KvShape& shape, const KvLoad& load) {
  MILLRACE_ASSIGN(KvPolicy policy, parse_kv_policy(name));
  policy.protection = protection;
  MILLRACE_ASSIGN(const KvLayers layers, resolve(policy, shape));
  const CacheShape cache{shape, layers.layers, load.windows, load.states};
  const CacheLoad sequences{load.max_batch, load.row_tokens, load.step_tokens};
  return cache.divide(load.memory_bytes, sequences).front() * kv_page_tokens;
}

}  // namespace

std::span<const KvRung> kv_ladder() {
  return ladder;
}

Result<KvChoice> choose_kv(const KvShape& shape, const KvLoad& load,
                           const KvProtection& protection) {
  const std::uint64_t whole = load.context_tokens;
  const std::uint64_t each = std::min<std::uint64_t>(whole, kv_expected_tokens);
  KvChoice out;
  out.load_tokens = std::max(whole, load.max_batch * each);
  for (const KvRung& rung : ladder) {
    for (const std::string_view policy : {rung.policy, rung.in_groups_of_32}) {
      const auto held = held_tokens(policy, protection, shape, load);
      if (!held && held.error().code != Code::unsupported_field) return fail(held.error());
      if (!held) continue;
      out.policy = policy;
      out.holds_tokens = *held;
      break;
    }
    if (out.fits()) break;
  }
  return out;
}

}  // namespace millrace::engine
