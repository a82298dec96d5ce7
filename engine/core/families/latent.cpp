#include "engine/core/families/latent.hpp"

#include <algorithm>
#include <string>

#include "engine/core/families/portable_math.hpp"

namespace millrace::engine {
namespace {

// Limits the stacks of kernels, which hold a query and its sums.
constexpr std::uint32_t most_key_channels = 1024;

Status refuse_unsplit(const GgufFile& file) {
  const auto unsplit = std::ranges::find_if(file.tensors(), [](const Tensor& tensor) {
    return tensor.name.ends_with(".attn_kv_b.weight");
  });
  if (unsplit == file.tensors().end()) return {};
  return fail(Code::unsupported_architecture,
              file.source() + ": tensor \"" + std::string(unsplit->name) +
                  "\" holds the matrices attn_k_b and attn_v_b of all heads in one",
              "the file is of an old converter: convert the model again, or download a newer file");
}

bool whole_vectors(std::uint32_t channels) {
  return channels > 0 && channels % 16 == 0;
}

}  // namespace

Result<std::vector<AttentionSpec>> read_latent_heads(Keys& keys, std::uint32_t blocks) {
  const GgufFile& file = keys.file();
  MILLRACE_TRY(refuse_unsplit(file));
  AttentionSpec out;
  LatentSpec latent;
  MILLRACE_ASSIGN(out.heads, keys.get<std::uint32_t>("attention.head_count"));
  MILLRACE_ASSIGN(out.kv_heads, keys.get_or<std::uint32_t>("attention.head_count_kv", 1));
  MILLRACE_ASSIGN(latent.rank, keys.get<std::uint32_t>("attention.kv_lora_rank"));
  MILLRACE_ASSIGN(latent.query_rank, keys.get_or<std::uint32_t>("attention.q_lora_rank", 0));
  // Converters write a rank of 1536, the default of the class, for queries without a latent.
  if (file.find_tensor("blk.0.attn_q.weight") != nullptr) latent.query_rank = 0;
  MILLRACE_ASSIGN(const auto query_dim, keys.get<std::uint32_t>("attention.key_length_mla"));
  MILLRACE_ASSIGN(latent.value_dim, keys.get<std::uint32_t>("attention.value_length_mla"));
  MILLRACE_ASSIGN(const auto turned, keys.get<std::uint32_t>("rope.dimension_count"));
  MILLRACE_ASSIGN(const auto key_dim, keys.get_or<std::uint32_t>("attention.key_length", 0));
  MILLRACE_ASSIGN(const auto value_dim,
                  keys.get_or<std::uint32_t>("attention.value_length", latent.rank));
  if (out.heads == 0 || out.heads > 1024 || out.kv_heads != 1) {
    return damaged(file, std::to_string(out.heads) + " heads and " + std::to_string(out.kv_heads) +
                             " KV heads: latent attention has 1 to 1024 and 1");
  }
  out.head_dim = latent.rank + turned;
  latent.plain_dim = query_dim > turned ? query_dim - turned : 0;
  const bool whole = whole_vectors(latent.rank) && whole_vectors(turned) &&
                     whole_vectors(latent.plain_dim) && whole_vectors(latent.value_dim);
  const bool fits = out.head_dim <= most_key_channels && query_dim <= most_key_channels &&
                    latent.value_dim <= most_key_channels && latent.query_rank <= 1u << 17;
  const bool agrees = (key_dim == 0 || key_dim == out.head_dim) && value_dim == latent.rank;
  if (!whole || !fits || !agrees) {
    return unsupported(
        file, "latents of " + std::to_string(latent.rank) + " channels, queries of " +
                  std::to_string(query_dim) + ", of which " + std::to_string(turned) +
                  " rotate, values of " + std::to_string(latent.value_dim) + ", cached keys of " +
                  std::to_string(key_dim) + " and values of " + std::to_string(value_dim) +
                  ": all parts must be multiples of 16, a cached key a latent and the rotated "
                  "channels, up to 1024, and a cached value the latent");
  }
  out.latent = latent;
  return std::vector<AttentionSpec>(blocks, out);
}

// The file states a tenth of the multiplier, unlike those of other architectures.
Status sharpen_latents(Keys& keys, const RopeSpec& rope, std::vector<AttentionSpec>& out) {
  MILLRACE_ASSIGN(const double tenth, keys.get_or<double>("rope.scaling.yarn_log_multiplier", 0.0));
  if (!rope.yarn || rope.yarn->factor <= 1.0) return {};
  const double sharper = 1.0 + tenth * log_of(rope.yarn->factor);
  for (AttentionSpec& attention : out) {
    attention.scale = static_cast<float>(double{attention.scale} * sharper * sharper);
  }
  return {};
}

}  // namespace millrace::engine
