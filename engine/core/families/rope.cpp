#include "engine/core/families/rope.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/families/portable_math.hpp"
#include "engine/core/gguf/dequantize.hpp"

namespace millrace::engine {
namespace {

// Whether frequencies may be divided by this factor: limits every angle to the accurate range.
bool fits_rotary(double factor) {
  return factor >= 1.0 / 64 && factor <= 1e6;
}

// Files write this divisor for channels that do not turn: no position makes an angle of it.
constexpr float never_turns = 1e30f;

Status check_base(const GgufFile& file, const RopeSpec& rope) {
  if (rope.base >= 1.0 && rope.base <= 1e12 && fits_rotary(rope.linear_factor)) return {};
  return damaged(file, "rotary base " + std::to_string(rope.base) + ", factor " +
                           std::to_string(rope.linear_factor) +
                           ": the base must be 1 to 1e12, the factor 1/64 to 1e6");
}

Result<std::vector<float>> read_divisors(const GgufFile& file, const std::string& name,
                                         std::uint32_t count) {
  MILLRACE_ASSIGN(const Tensor* tensor, file.tensor(name));
  if (tensor->type != TensorType::f32 || tensor->elements() != count) {
    return damaged(file, name + " must hold " + std::to_string(count) + " F32 values");
  }
  std::vector<float> divisors(count);
  MILLRACE_TRY(dequantize_rows(*tensor, 0, tensor->rows(), divisors));
  const auto fits = [](float each) { return each == never_turns || fits_rotary(double{each}); };
  if (std::ranges::all_of(divisors, fits)) return divisors;
  return damaged(file, name + " holds a value outside 1/64 to 1e6 that is not 1e30");
}

// How much YaRN makes attention sharper, for a context stretched by `factor`.
double sharpness(double factor, double multiplier) {
  return factor <= 1.0 ? 1.0 : 0.1 * multiplier * log_of(factor) + 1.0;
}

Status read_yarn(Keys& keys, const Family& family, double factor, std::uint32_t original_tokens,
                 RopeSpec& rope) {
  Yarn yarn{.factor = factor,
            .original_tokens = double(original_tokens),
            .rounds_range = family.yarn_rounds_range};
  MILLRACE_ASSIGN(yarn.beta_fast, keys.get_or<double>("rope.scaling.yarn_beta_fast", 32.0));
  MILLRACE_ASSIGN(yarn.beta_slow, keys.get_or<double>("rope.scaling.yarn_beta_slow", 1.0));
  MILLRACE_ASSIGN(const double multiplier,
                  keys.get_or<double>("rope.scaling.yarn_log_multiplier", 0.0));
  const bool fits = factor >= 1.0 && factor <= 1e6 && rope.base > 1.0 && yarn.beta_slow >= 1e-3 &&
                    yarn.beta_fast >= yarn.beta_slow && yarn.beta_fast <= 1e6 &&
                    multiplier >= 0.0 && multiplier <= 16.0;
  if (!fits) {
    return damaged(keys.file(),
                   "YaRN by factor " + std::to_string(factor) + ", beta " +
                       std::to_string(yarn.beta_fast) + " to " + std::to_string(yarn.beta_slow) +
                       ", log multiplier " + std::to_string(multiplier) + ", base " +
                       std::to_string(rope.base) +
                       ": the factor must be 1 to 1e6, beta 1e6 to 0.001, the multiplier 0 to 16, "
                       "the base above 1");
  }
  rope.amplitude = sharpness(factor, 1.0);
  // Latent attention has the multiplier in the scale of its scores instead (latent.cpp).
  if (multiplier != 0.0) {
    rope.amplitude = family.latent ? 1.0 : rope.amplitude / sharpness(factor, multiplier);
  }
  MILLRACE_ASSIGN(rope.amplitude, keys.get_or<double>("rope.scaling.yarn_attn_factor",  //
                                                      rope.amplitude));
  rope.yarn = yarn;
  return keys.refuse_unless_neutral("rope.scaling.yarn_ext_factor", 1.0f);
}

// Longrope's divisors are tensors, one for the original context and one for the stretched one.
Status read_longrope(Keys& keys, std::uint32_t original_tokens, std::uint32_t context,
                     RopeSpec& rope) {
  MILLRACE_ASSIGN(auto few, read_divisors(keys.file(), "rope_factors_short.weight", rope.dim / 2));
  MILLRACE_ASSIGN(auto many, read_divisors(keys.file(), "rope_factors_long.weight", rope.dim / 2));
  const bool stretched = context > original_tokens;
  rope.divisors = std::move(stretched ? many : few);
  if (!stretched || keys.contains("rope.scaling.attn_factor")) return {};
  const double factor = double(context) / original_tokens;
  rope.amplitude = std::sqrt(1.0 + log_of(factor) / log_of(original_tokens));
  return {};
}

Status read_scaling(Keys& keys, const Family& family, std::uint32_t context, RopeSpec& rope) {
  const GgufFile& file = keys.file();
  // A factor without a kind is linear; 0 means unset.
  MILLRACE_ASSIGN(const auto kind,
                  keys.get_or<std::string_view>("rope.scaling.type", std::string_view("linear")));
  MILLRACE_ASSIGN(const double legacy, keys.get_or<double>("rope.scale_linear", 0.0));
  MILLRACE_ASSIGN(const double factor, keys.get_or<double>("rope.scaling.factor", legacy));
  MILLRACE_ASSIGN(const auto original_tokens, read_original_tokens(keys, context));
  if (kind == "linear" && factor != 0.0) rope.linear_factor = factor;
  MILLRACE_TRY(check_base(file, rope));
  // Phi 3 has the tensors without the kind.
  const bool has_factors = file.find_tensor("rope_factors_long.weight") != nullptr ||
                           file.find_tensor("rope_factors_short.weight") != nullptr;
  if (kind == "longrope" || (has_factors && kind == "linear")) {
    MILLRACE_TRY(read_longrope(keys, original_tokens, context, rope));
  } else if (has_factors) {
    return unsupported(file, "rope_factors_long.weight with " + keys.full("rope.scaling.type") +
                                 " = " + std::string(kind) + " is not supported");
  } else if (kind == "yarn") {
    MILLRACE_TRY(read_yarn(keys, family, factor, original_tokens, rope));
  } else if (kind != "none" && kind != "linear") {
    return unsupported(
        file, keys.full("rope.scaling.type") + " = " + std::string(kind) + " is not supported");
  }
  MILLRACE_ASSIGN(const double times, keys.get_or<double>("rope.scaling.attn_factor", 1.0));
  rope.amplitude *= times;
  if (rope.amplitude >= 1.0 / 64 && rope.amplitude <= 64.0) return {};
  return damaged(
      file, "a rotary amplitude of " + std::to_string(rope.amplitude) + " is outside 1/64 to 64");
}

// Reads how many channels of a head turn.
Result<std::uint32_t> read_dim(Keys& keys, std::string_view name, std::uint32_t head_dim,
                               std::uint32_t fallback) {
  MILLRACE_ASSIGN(const auto dim, keys.get_or<std::uint32_t>(name, fallback));
  if (dim != 0 && dim % 2 == 0 && dim <= head_dim) return dim;
  return damaged(keys.file(), keys.full(name) + " = " + std::to_string(dim) +
                                  " does not fit heads of " + std::to_string(head_dim));
}

}  // namespace

Result<std::uint32_t> read_original_tokens(Keys& keys, std::uint32_t context) {
  constexpr std::string_view name = "rope.scaling.original_context_length";
  MILLRACE_ASSIGN(const auto tokens, keys.get_or<std::uint32_t>(name, context));
  if (tokens > 0 && tokens <= 1u << 24) return tokens;
  return damaged(keys.file(),
                 keys.full(name) + " = " + std::to_string(tokens) + " is outside 1 to 2^24");
}

Result<Ropes> read_ropes(Keys& keys, const Family& family, HeadDims head_dims,
                         std::uint32_t context) {
  if (family.rope == RopeKind::none) {
    for (const char* name : {"rope.dimension_count", "rope.freq_base", "rope.scaling.finetuned"}) {
      keys.ignore(name);
    }
    return Ropes{{.kind = RopeKind::none}, {.kind = RopeKind::none}};
  }
  RopeSpec rope{.kind = family.rope};
  MILLRACE_ASSIGN(rope.dim, read_dim(keys, "rope.dimension_count", head_dims.all, head_dims.all));
  MILLRACE_ASSIGN(rope.base, keys.get_or<double>("rope.freq_base", 10000.0));
  MILLRACE_TRY(read_scaling(keys, family, context, rope));
  if (keys.file().find_tensor("rope_freqs.weight") != nullptr) {
    if (!rope.divisors.empty()) {
      return unsupported(keys.file(),
                         "rope_freqs.weight beside longrope's factors is not supported");
    }
    MILLRACE_ASSIGN(rope.divisors, read_divisors(keys.file(), "rope_freqs.weight", rope.dim / 2));
  }
  // The sections rotate by the coordinates of an image; text has one position for all of them.
  if (family.rope_sections) keys.ignore("rope.dimension_sections");
  keys.ignore("rope.scaling.finetuned");  // says that the model was trained so
  Ropes ropes{rope, rope};
  if (family.windowed != WindowedLayers::pattern) return ropes;
  RopeSpec& local = ropes.windowed;
  if (family.windowed_heads) {
    MILLRACE_ASSIGN(local.dim, read_dim(keys, "rope.dimension_count_swa", head_dims.windowed,
                                        head_dims.windowed));
    local = {.kind = rope.kind, .dim = local.dim, .base = rope.base};
  } else if (family.local_is_plain) {
    local = {.kind = rope.kind, .dim = rope.dim, .base = rope.base};
  }
  if (family.local_base != 0.0) local.base = family.local_base;
  MILLRACE_ASSIGN(local.base, keys.get_or<double>("rope.freq_base_swa", local.base));
  MILLRACE_TRY(check_base(keys.file(), local));
  if (!local.yarn || local.base > 1.0) return ropes;
  return damaged(keys.file(), keys.full("rope.freq_base_swa") + " = 1 cannot be with YaRN");
}

}  // namespace millrace::engine
