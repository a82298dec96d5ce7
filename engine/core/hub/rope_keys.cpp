// Ropes of config.json. Files of `transformers` 5 have rope_parameters, for each kind of layer if
// these differ; older ones have rope_theta and rope_scaling.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "engine/core/families/portable_math.hpp"
#include "engine/core/hub/model_keys.hpp"

namespace millrace::engine {
namespace {

using Number = std::uint32_t;

struct RopeSettings {
  Settings all, windowed;
  std::string type;
  double base = 10000.0;
};

Result<RopeSettings> read_rope(const Settings& config) {
  const bool is_new = config.is_object("rope_parameters");
  MILLRACE_ASSIGN(const Settings given, config.object(is_new ? "rope_parameters" : "rope_scaling"));
  RopeSettings out;
  out.all = given;
  if (given.is_object("full_attention")) {
    MILLRACE_ASSIGN(out.all, given.object("full_attention"));
  }
  if (given.is_object("sliding_attention")) {
    MILLRACE_ASSIGN(out.windowed, given.object("sliding_attention"));
  }
  MILLRACE_ASSIGN(const auto old_base, config.get_or<double>("rope_theta", 10000.0));
  MILLRACE_ASSIGN(out.base, out.all.get_or<double>("rope_theta", old_base));
  MILLRACE_ASSIGN(const auto old_type, out.all.get_or<std::string>("type", "default"));
  MILLRACE_ASSIGN(out.type, out.all.get_or<std::string>("rope_type", old_type));
  return out;
}

// The context that a model was trained on before it was stretched.
Result<Number> original_tokens(const Settings& config, const Settings& rope) {
  constexpr std::string_view name = "original_max_position_embeddings";
  MILLRACE_ASSIGN(const auto context, config.get<Number>("max_position_embeddings"));
  MILLRACE_ASSIGN(const auto outside, config.get_or<Number>(name, context));
  return rope.get_or<Number>(name, outside);
}

double sharpness(double factor, double multiplier) {
  return factor <= 1.0 ? 1.0 : 0.1 * multiplier * log_of(factor) + 1.0;
}

// Latent attention has a tenth of the multiplier, and may have a temperature.
Status write_latent_yarn(const Settings& rope, Number original, ModelKeys& keys) {
  MILLRACE_ASSIGN(const auto all, rope.find<double>("mscale_all_dim"));
  if (all) keys.put("rope.scaling.yarn_log_multiplier", static_cast<float>(0.1 * *all));
  if (!rope.has("llama_4_scaling_beta")) return {};
  keys.put("attention.temperature_length", original);
  return keys.copy<double>(rope, "llama_4_scaling_beta", "attention.temperature_scale");
}

Status write_yarn(const HubFamily& family, const Settings& config, const Settings& rope,
                  ModelKeys& keys) {
  MILLRACE_ASSIGN(const double factor, rope.get<double>("factor"));
  MILLRACE_ASSIGN(const auto original, original_tokens(config, rope));
  const bool rounds = family.architecture != "gpt-oss";
  MILLRACE_ASSIGN(const bool truncates, rope.get_or<bool>("truncate", rounds));
  if (truncates != rounds) {
    return refuse_setting(config, "YaRN with truncate other than the family's");
  }
  keys.put("rope.scaling.type", "yarn");
  keys.put("rope.scaling.factor", static_cast<float>(factor));
  keys.put("rope.scaling.original_context_length", original);
  MILLRACE_TRY(keys.copy<double>(rope, "beta_fast", "rope.scaling.yarn_beta_fast"));
  MILLRACE_TRY(keys.copy<double>(rope, "beta_slow", "rope.scaling.yarn_beta_slow"));
  if (family.architecture == "mistral3") {
    MILLRACE_TRY(keys.copy<double>(rope, "mscale_all_dim", "rope.scaling.yarn_log_multiplier"));
    return keys.copy<double>(rope, "llama_4_scaling_beta", "attention.temperature_scale");
  }
  const bool latent = family.kv_heads == KvHeads::one;
  if (latent) MILLRACE_TRY(write_latent_yarn(rope, original, keys));
  if (rope.has("attention_factor")) {
    return keys.copy<double>(rope, "attention_factor", "rope.scaling.yarn_attn_factor");
  }
  if (!rope.has("mscale") || !rope.has("mscale_all_dim")) return {};
  MILLRACE_ASSIGN(const double each, rope.get<double>("mscale"));
  MILLRACE_ASSIGN(const double all, rope.get<double>("mscale_all_dim"));
  if (latent && each == all) return {};  // as the architecture has it
  keys.put("rope.scaling.yarn_attn_factor",
           static_cast<float>(sharpness(factor, each) / sharpness(factor, all)));
  return {};
}

// Llama 3 divides slow frequencies by a factor and keeps fast ones.
Result<RopeFactors> llama3_factors(const Settings& rope, double base, Number dim) {
  MILLRACE_ASSIGN(const double factor, rope.get<double>("factor"));
  MILLRACE_ASSIGN(const double low, rope.get<double>("low_freq_factor"));
  MILLRACE_ASSIGN(const double high, rope.get<double>("high_freq_factor"));
  MILLRACE_ASSIGN(const auto original, rope.get<Number>("original_max_position_embeddings"));
  if (!(base >= 1.0 && factor > 0.0 && high > low)) {
    return refuse_setting(rope, "a rope of these numbers");
  }
  RopeFactors out{"rope_freqs.weight", {}};
  for (Number i = 0; i < dim; i += 2) {
    const double frequency = exp_of(-double(i) / dim * log_of(base));
    const double turns = original * frequency / (2 * std::numbers::pi);
    const double smooth = (turns - low) / (high - low);
    const double middle = 1.0 / ((1.0 - smooth) / factor + smooth);
    out.values.push_back(static_cast<float>(turns > high ? 1.0 : turns < low ? factor : middle));
  }
  return out;
}

Result<std::vector<RopeFactors>> write_longrope(const Settings& config, const Settings& rope,
                                                Number dim, ModelKeys& keys) {
  MILLRACE_ASSIGN(const auto original, original_tokens(config, rope));
  MILLRACE_ASSIGN(const auto context, config.get<Number>("max_position_embeddings"));
  const double stretch = double(context) / std::max<Number>(original, 1);
  double amplitude = 1.0;
  if (stretch > 1.0 && original > 1) {
    amplitude = std::sqrt(1.0 + log_of(stretch) / log_of(original));
  }
  MILLRACE_ASSIGN(amplitude, rope.get_or<double>("attention_factor", amplitude));
  keys.put("rope.scaling.attn_factor", static_cast<float>(amplitude));
  std::vector<RopeFactors> out;
  for (const char* const length : {"long", "short"}) {
    MILLRACE_ASSIGN(const auto factors,
                    rope.get<std::vector<double>>(std::string(length) + "_factor"));
    if (factors.size() != dim / 2) {
      return refuse_setting(config, "a longrope of " + std::to_string(factors.size()) +
                                        " factors for " + std::to_string(dim) + " channels");
    }
    out.push_back({"rope_factors_" + std::string(length) + ".weight",
                   std::vector<float>(factors.begin(), factors.end())});
  }
  return out;
}

// Hunyuan stretches its base. The context is the one it was trained for, which config.json does not
// say.
Status write_hunyuan(const Settings& rope, double& base, Number dim, ModelKeys& keys) {
  constexpr Number trained_tokens = 256 * 1024;
  MILLRACE_ASSIGN(const double alpha, rope.get<double>("alpha"));
  if (!(alpha > 0.0) || dim <= 2) return refuse_setting(rope, "a rope of these numbers");
  base *= exp_of(log_of(alpha) * dim / (dim - 2));
  keys.put("rope.scaling.type", "none");
  keys.put("rope.scaling.factor", 1.0f);
  keys.put("rope.scaling.original_context_length", trained_tokens);
  keys.put("context_length", trained_tokens);
  return {};
}

Result<Number> rotated_channels(const Settings& config, const Settings& rope, Number head_dim) {
  if (config.has("qk_rope_head_dim")) return config.get<Number>("qk_rope_head_dim");
  if (config.has("rotary_dim")) return config.get<Number>("rotary_dim");
  MILLRACE_ASSIGN(const double outside, config.get_or<double>("partial_rotary_factor", 1.0));
  MILLRACE_ASSIGN(const double part, rope.get_or<double>("partial_rotary_factor", outside));
  if (!(part > 0.0 && part <= 1.0)) return refuse_setting(config, "partial_rotary_factor");
  return static_cast<Number>(head_dim * part);
}

// Gemma 4 turns the first channels of global heads, in both halves: the rest is divided away.
Result<RopeFactors> proportional_factors(const Settings& config, const Settings& rope, Number dim) {
  constexpr float never_turns = 1e30f;
  MILLRACE_ASSIGN(const double part, rope.get_or<double>("partial_rotary_factor", 1.0));
  if (!(part > 0.0 && part <= 1.0)) return refuse_setting(config, "partial_rotary_factor");
  const auto turning = static_cast<Number>(dim * part / 2.0);
  RopeFactors out{"rope_freqs.weight", std::vector<float>(dim / 2, never_turns)};
  std::fill_n(out.values.begin(), turning, 1.0f);
  return out;
}

// The frequencies of Qwen 3.5 are for three coordinates of an image.
Status write_sections(const Settings& rope, ModelKeys& keys) {
  using Sizes = std::vector<Number>;
  constexpr std::size_t most_sections = 4;
  MILLRACE_ASSIGN(const auto given, rope.get_or<Sizes>("mrope_section", Sizes{11, 11, 10}));
  if (given.size() > most_sections)
    return refuse_setting(rope, "mrope_section of so many sections");
  std::vector<std::int32_t> sections(given.begin(), given.end());
  sections.resize(most_sections);
  keys.put("rope.dimension_sections", std::span<const std::int32_t>(sections));
  return {};
}

// Whether attention rotates at all. Models with states that do not have no limit of positions.
Result<bool> rotates(const HubFamily& family, const Settings& config, ModelKeys& keys) {
  if (!family.class_name.starts_with("GraniteMoeHybrid")) return family.rotates;
  MILLRACE_ASSIGN(const auto type, config.get_or<std::string>("position_embedding_type", ""));
  keys.put("rope.scaling.finetuned", type == "rope");
  return type == "rope";
}

}  // namespace

Result<std::vector<RopeFactors>> write_rope_keys(const HubFamily& family, const Settings& config,
                                                 std::uint32_t head_dim, ModelKeys& keys) {
  constexpr Number no_limit = 1u << 20;
  MILLRACE_ASSIGN(const bool turns, rotates(family, config, keys));
  if (!turns) keys.put("context_length", no_limit);
  if (!family.rotates) return std::vector<RopeFactors>();
  MILLRACE_ASSIGN(RopeSettings rope, read_rope(config));
  if (family.architecture == "gemma4") {
    MILLRACE_ASSIGN(head_dim, config.get<Number>("global_head_dim"));
  }
  // Its class has a rope of its own for files without one, which none is known to be.
  if (family.architecture == "mistral4" && rope.type == "default") {
    return refuse_setting(config, "a rope of the type 'default'");
  }
  const bool proportional = family.architecture == "gemma4" && rope.type == "proportional";
  const Settings part = proportional ? Settings() : rope.all;
  MILLRACE_ASSIGN(const auto dim, rotated_channels(config, part, head_dim));
  MILLRACE_ASSIGN(const auto context, config.get<Number>("max_position_embeddings"));
  constexpr Number most_channels = 1u << 16;
  if (dim > most_channels) {
    return refuse_setting(config, "a head of " + std::to_string(dim) + " channels");
  }
  std::vector<RopeFactors> out;
  keys.put("rope.dimension_count", dim);
  const bool hunyuan = family.architecture == "hunyuan-dense" && rope.type == "dynamic";
  if (rope.type == "linear") {
    MILLRACE_ASSIGN(const double factor, rope.all.get<double>("factor"));
    keys.put("rope.scaling.type", "linear");
    keys.put("rope.scaling.factor", static_cast<float>(factor));
  } else if (rope.type == "yarn") {
    MILLRACE_TRY(write_yarn(family, config, rope.all, keys));
  } else if (rope.type == "llama3") {
    MILLRACE_ASSIGN(RopeFactors factors, llama3_factors(rope.all, rope.base, dim));
    out.push_back(std::move(factors));
  } else if (rope.type == "longrope" || rope.type == "su") {
    MILLRACE_ASSIGN(out, write_longrope(config, rope.all, dim, keys));
  } else if (hunyuan) {
    MILLRACE_TRY(write_hunyuan(rope.all, rope.base, dim, keys));
  } else if (proportional) {
    MILLRACE_ASSIGN(RopeFactors factors, proportional_factors(config, rope.all, dim));
    out.push_back(std::move(factors));
  } else if (rope.type != "default") {
    return refuse_setting(config, "a rope of the type '" + rope.type + "'");
  }
  if (turns && !hunyuan) keys.put("context_length", context);
  if (family.architecture.starts_with("qwen35")) MILLRACE_TRY(write_sections(rope.all, keys));
  if (family.architecture == "phi3") {
    MILLRACE_ASSIGN(const auto original, original_tokens(config, rope.all));
    keys.put("rope.scaling.original_context_length", original);
  }
  keys.put("rope.freq_base", static_cast<float>(rope.base));
  MILLRACE_ASSIGN(const auto old_local, config.find<double>("rope_local_base_freq"));
  MILLRACE_ASSIGN(auto local, rope.windowed.find<double>("rope_theta"));
  if (!local) local = old_local;
  if (local) keys.put("rope.freq_base_swa", static_cast<float>(*local));
  return out;
}

}  // namespace millrace::engine
