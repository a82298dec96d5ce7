#include "engine/core/families/recurrence.hpp"

#include <string>

namespace millrace::engine {
namespace {

constexpr std::uint32_t most_taps = 8, most_heads = 1024, most_dim = 512;

Status check_taps(Keys& keys, std::string_view name, const RecurrenceSpec& spec) {
  if (spec.taps < 2 || spec.taps > most_taps) {
    return unsupported(keys.file(), keys.full(name) + " = " + std::to_string(spec.taps) +
                                        " is outside 2 to " + std::to_string(most_taps));
  }
  if (spec.channels % 16 == 0) return {};
  return unsupported(keys.file(), "a convolution of " + std::to_string(spec.channels) +
                                      " channels, which are not a multiple of 16");
}

Result<RecurrenceSpec> read_convolution(Keys& keys, std::uint32_t width) {
  RecurrenceSpec spec{.kind = RecurrenceKind::convolution, .channels = width};
  MILLRACE_ASSIGN(spec.taps, keys.get<std::uint32_t>("shortconv.l_cache"));
  MILLRACE_TRY(check_taps(keys, "shortconv.l_cache", spec));
  return spec;
}

// A delta net and Mamba 2 have the same keys: the heads, the width of all heads' values, the key
// heads (groups), and the channels of a key.
Result<RecurrenceSpec> read_heads(Keys& keys, const Family& family) {
  RecurrenceSpec spec{.kind = family.recurrence,
                      .keys_in_turn = family.keys_in_turn,
                      .gates_by_key_head = family.gates_by_key_head};
  MILLRACE_ASSIGN(spec.taps, keys.get<std::uint32_t>("ssm.conv_kernel"));
  MILLRACE_ASSIGN(const auto inner, keys.get<std::uint32_t>("ssm.inner_size"));
  MILLRACE_ASSIGN(spec.key_dim, keys.get<std::uint32_t>("ssm.state_size"));
  MILLRACE_ASSIGN(spec.heads, keys.get<std::uint32_t>("ssm.time_step_rank"));
  MILLRACE_ASSIGN(spec.key_heads, keys.get<std::uint32_t>("ssm.group_count"));
  const bool counts_fit = spec.heads > 0 && spec.heads <= most_heads && spec.key_heads > 0 &&
                          spec.heads % spec.key_heads == 0 && inner % spec.heads == 0;
  if (!counts_fit) {
    return damaged(keys.file(), "impossible recurrence: " + std::to_string(inner) +
                                    " channels of " + std::to_string(spec.heads) + " heads, " +
                                    std::to_string(spec.key_heads) + " of keys (" +
                                    keys.full("ssm.") + "*)");
  }
  spec.value_dim = inner / spec.heads;
  const auto fits = [](std::uint32_t dim) { return dim > 0 && dim % 16 == 0 && dim <= most_dim; };
  if (!fits(spec.key_dim) || !fits(spec.value_dim)) {
    return unsupported(keys.file(), "a recurrence with heads of " + std::to_string(spec.key_dim) +
                                        " key and " + std::to_string(spec.value_dim) +
                                        " value channels: both must be multiples of 16, up to " +
                                        std::to_string(most_dim));
  }
  spec.channels = spec.values() + 2 * spec.keys();
  MILLRACE_TRY(check_taps(keys, "ssm.conv_kernel", spec));
  return spec;
}

// The layers that `attention.recurrent_layers` names, or that the interval leaves.
Result<std::vector<bool>> recurrent_by_key(Keys& keys, std::uint32_t blocks) {
  constexpr std::string_view list = "attention.recurrent_layers";
  MILLRACE_ASSIGN(const auto interval, keys.get_or<std::uint32_t>("full_attention_interval", 4));
  if (keys.contains(list)) return keys.flags(list, blocks);
  if (interval == 0) {
    return damaged(keys.file(), keys.full("full_attention_interval") + " = 0 cannot be");
  }
  std::vector<bool> out;
  for (std::uint32_t i = 0; i < blocks; ++i) out.push_back((i + 1) % interval != 0);
  return out;
}

}  // namespace

Result<std::vector<Mixer>> read_mixers(Keys& keys, const Family& family, Blocks blocks,
                                       std::uint32_t width,
                                       std::span<const AttentionSpec> attentions,
                                       std::span<const FeedForwardSpec> feed_forwards) {
  std::vector<Mixer> out(blocks.layers);
  if (family.recurrent == RecurrentLayers::none) return out;
  std::vector<bool> by_key;
  if (family.recurrent == RecurrentLayers::by_key) {
    MILLRACE_ASSIGN(by_key, recurrent_by_key(keys, blocks.all));
  }
  RecurrenceSpec spec;
  if (family.recurrence == RecurrenceKind::convolution) {
    MILLRACE_ASSIGN(spec, read_convolution(keys, width));
  } else {
    MILLRACE_ASSIGN(spec, read_heads(keys, family));
  }
  for (std::uint32_t i = 0; i < blocks.layers; ++i) {
    bool recurrent = true;
    Mixer& mixer = out[i];
    if (family.recurrent == RecurrentLayers::by_key) recurrent = by_key[i];
    if (family.recurrent == RecurrentLayers::without_kv_heads) {
      mixer.attends = attentions[i].exists();
      recurrent = !mixer.attends && !(family.one_sublayer && feed_forwards[i].exists());
    } else {
      mixer.attends = family.recurrent == RecurrentLayers::beside_attention || !recurrent;
    }
    if (!recurrent) continue;
    mixer.recurrence = spec;
    const std::string norm = "blk." + std::to_string(i) + ".ssm_norm.weight";
    mixer.recurrence.normed = keys.file().find_tensor(norm) != nullptr;
    if (spec.kind == RecurrenceKind::delta_net) mixer.recurrence.normed = true;
  }
  return out;
}

}  // namespace millrace::engine
