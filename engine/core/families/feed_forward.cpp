#include "engine/core/families/feed_forward.hpp"

#include <array>
#include <optional>
#include <string>

namespace millrace::engine {
namespace {

constexpr std::uint32_t most_width = 1u << 19, most_experts = 4096;

std::string number(std::uint32_t value) {
  return std::to_string(value);
}

Status refuse_experts(Keys& keys) {
  for (const char* name : {"expert_count", "expert_used_count"}) {
    MILLRACE_ASSIGN(const auto count, keys.get_or<std::uint32_t>(name, 0));
    if (count > 1) {  // converters count the feed-forward of a dense model as one expert
      return unsupported(keys.file(), keys.full(name) + ": a mixture of experts is not supported");
    }
  }
  return {};
}

Status read_router(Keys& keys, const Family& family, ExpertsSpec& experts) {
  MILLRACE_ASSIGN(const auto kind, keys.get_or<std::uint32_t>("expert_gating_func", 0));
  constexpr auto routers =
      std::to_array<Router>({Router::softmax, Router::sigmoid, Router::softmax_of_chosen});
  if (kind > routers.size()) {
    return unsupported(
        keys.file(), keys.full("expert_gating_func") + " = " + number(kind) + " is not supported");
  }
  experts.router = kind == 0 ? family.router : routers[kind - 1];
  MILLRACE_ASSIGN(experts.normalized,
                  keys.get_or<bool>("expert_weights_norm", family.weights_normalized));
  MILLRACE_ASSIGN(experts.scale, keys.factor("expert_weights_scale"));
  MILLRACE_ASSIGN(const auto groups, keys.get_or<std::uint32_t>("expert_group_count", 0));
  MILLRACE_ASSIGN(const auto used, keys.get_or<std::uint32_t>("expert_group_used_count", 0));
  experts.groups = groups == 0 ? 1 : groups;
  experts.groups_used = experts.groups == 1 ? 1 : used;
  return {};
}

// Reads what all layers with experts have in common. A count of 0: the model has none.
Result<ExpertsSpec> read_experts(Keys& keys, const Family& family) {
  ExpertsSpec experts;
  MILLRACE_ASSIGN(experts.count, keys.get_or<std::uint32_t>("expert_count", 0));
  if (experts.count == 0 && family.mixture == Mixture::optional) {
    MILLRACE_ASSIGN(const auto used, keys.get_or<std::uint32_t>("expert_used_count", 0));
    if (used == 0) return experts;
  }
  if (experts.count == 0 || experts.count > most_experts) {
    return damaged(keys.file(), keys.full("expert_count") + " = " + number(experts.count) +
                                    " is outside 1 to " + number(most_experts));
  }
  MILLRACE_TRY(read_router(keys, family, experts));
  return experts;
}

// Checks that so many experts can be chosen. The two best experts of a group give its rank.
Status check_choice(Keys& keys, const ExpertsSpec& experts) {
  const std::uint32_t size = experts.count / experts.groups;
  const bool groups_fit =
      experts.groups == 1 || (experts.count % experts.groups == 0 && size >= 2 &&
                              experts.groups_used > 0 && experts.groups_used <= experts.groups);
  if (groups_fit && experts.used > 0 && experts.used <= size * experts.groups_used) return {};
  return damaged(keys.file(), keys.full("expert_used_count") + " = " + number(experts.used) +
                                  ": as many of " + number(experts.count) + " experts, from " +
                                  number(experts.groups_used) + " of " + number(experts.groups) +
                                  " groups, cannot be chosen");
}

bool has_selection_bias(const GgufFile& file, std::uint32_t layer) {
  return file.find_tensor("blk." + number(layer) + ".exp_probs_b.bias") != nullptr;
}

Status check_width(Keys& keys, std::string_view name, std::uint64_t width, std::uint32_t layer) {
  if (width > 0 && width <= most_width) return {};
  return damaged(keys.file(), "impossible sizes: " + keys.full(name) + " = " +
                                  std::to_string(width) + " in layer " + number(layer));
}

// Reads what differs between layers, and places the experts into their layers.
Status place_experts(Keys& keys, const Family& family, const ExpertsSpec& experts,
                     std::uint32_t blocks, std::vector<FeedForwardSpec>& layers) {
  MILLRACE_ASSIGN(const auto leading, keys.get_or<std::uint32_t>("leading_dense_block_count", 0));
  MILLRACE_ASSIGN(const auto step, keys.get_or<std::uint32_t>("interleave_moe_layer_step", 1));
  if (step == 0) {
    return damaged(keys.file(), keys.full("interleave_moe_layer_step") + " = 0 cannot be");
  }
  const bool has_width = keys.contains("expert_feed_forward_length");
  MILLRACE_ASSIGN(const auto widths, keys.by_block("expert_feed_forward_length", blocks, 0));
  MILLRACE_ASSIGN(const auto used, keys.by_block("expert_used_count", blocks, {}));
  MILLRACE_ASSIGN(const auto shared,
                  keys.get_or<std::uint32_t>("expert_shared_feed_forward_length", 0));
  MILLRACE_ASSIGN(const auto shared_count, keys.get_or<std::uint32_t>("expert_shared_count", 0));
  for (std::uint32_t i = leading; i < layers.size(); ++i) {
    if ((i + 1) % step != 0 || (family.one_sublayer && layers[i].width == 0)) continue;
    ExpertsSpec here = experts;
    here.used = used[i];
    MILLRACE_TRY(check_choice(keys, here));
    here.width = has_width || family.experts_beside_dense ? widths[i] : layers[i].width;
    MILLRACE_TRY(check_width(keys, "expert_feed_forward_length", here.width, i));
    const std::uint64_t shared_width =
        shared > 0 ? shared : std::uint64_t{shared_count} * here.width;
    if (shared_width > 0) {
      MILLRACE_TRY(check_width(keys, "expert_shared_feed_forward_length", shared_width, i));
    }
    here.shared_width = static_cast<std::uint32_t>(shared_width);
    here.shared_gate = family.shared_gate && shared_width > 0;
    here.selection_bias = family.selection_bias || has_selection_bias(keys.file(), i);
    if (family.experts_beside_dense) {
      here.router_norm = here.expert_scales = true;
    } else {
      layers[i].width = 0;
    }
    layers[i].experts = here;
  }
  return {};
}

}  // namespace

Result<std::vector<FeedForwardSpec>> read_feed_forwards(Keys& keys, const Family& family,
                                                        Blocks blocks) {
  ExpertsSpec experts;
  if (family.mixture == Mixture::never) {
    MILLRACE_TRY(refuse_experts(keys));
  } else {
    MILLRACE_ASSIGN(experts, read_experts(keys, family));
  }
  std::optional<std::uint32_t> fallback;  // only models of experts may lack the key
  if (experts.count > 0) fallback = 0;
  MILLRACE_ASSIGN(const auto widths, keys.by_block("feed_forward_length", blocks.all, fallback));
  std::vector<FeedForwardSpec> layers(blocks.layers);
  for (std::uint32_t i = 0; i < blocks.layers; ++i) {
    layers[i].width = widths[i];
    layers[i].gate = family.gate;
  }
  if (experts.count > 0) MILLRACE_TRY(place_experts(keys, family, experts, blocks.all, layers));
  // Dense models of granitehybrid count their feed-forward as a shared expert.
  if (experts.count == 0 && family.mixture == Mixture::optional) {
    keys.ignore("expert_shared_feed_forward_length");
  }
  for (std::uint32_t i = 0; i < blocks.layers; ++i) {
    if (layers[i].experts && !family.experts_beside_dense) continue;
    if (family.one_sublayer && layers[i].width == 0) continue;
    MILLRACE_TRY(check_width(keys, "feed_forward_length", layers[i].width, i));
  }
  return layers;
}

}  // namespace millrace::engine
