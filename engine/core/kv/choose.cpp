#include "engine/core/kv/choose.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace millrace::engine {
namespace {

constexpr std::array<std::string_view, 4> ladder{"f16", "q8", "k8v4", "k6v4"};

// Tokens in whole pages that the memory holds; nothing where the heads cannot be stored so.
std::optional<std::uint64_t> held_tokens(std::string_view preset, const KvShape& shape,
                                         std::uint64_t memory_bytes) {
  const auto policy = parse_kv_policy(preset);
  if (!policy) return std::nullopt;
  const auto layers = resolve(*policy, shape);
  if (!layers) return std::nullopt;
  std::uint64_t page = 0;
  for (const KvCodecs& codecs : layers->layers) {
    page += layer_page_bytes(codecs, shape.kv_heads, shape.head_dim);
  }
  return memory_bytes / page * kv_page_tokens;
}

}  // namespace

std::span<const std::string_view> kv_ladder() {
  return ladder;
}

KvChoice choose_kv(const KvShape& shape, const KvLoad& load) {
  const std::uint64_t whole = load.context_tokens;
  const std::uint64_t each = std::min<std::uint64_t>(whole, kv_expected_tokens);
  KvChoice out;
  out.load_tokens = std::max(whole, load.max_batch * each);
  for (const std::string_view preset : ladder) {
    const auto held = held_tokens(preset, shape, load.memory_bytes);
    if (!held) continue;
    out.preset = preset;
    out.holds_tokens = *held;
    if (out.fits()) break;
  }
  return out;
}

}  // namespace millrace::engine
