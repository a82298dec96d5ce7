#pragma once
// Reads the sizes of multi-head latent attention (LatentSpec). Internal. Errors: gguf_malformed,
// unsupported_architecture. Thread safety: pure functions.
#include <cstdint>
#include <vector>

#include "engine/core/families/keys.hpp"
#include "engine/core/families/spec.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

// Returns heads, KV heads, head_dim and `latent` of each block, the same of all. A file with
// attn_kv_b, of before that matrix was split, is refused.
Result<std::vector<AttentionSpec>> read_latent_heads(Keys& keys, std::uint32_t blocks);

// Multiplies the scale of scores by how much sharper attention is where YaRN stretches the context.
Status sharpen_latents(Keys& keys, const RopeSpec& rope, std::vector<AttentionSpec>& out);

}  // namespace millrace::engine
