#pragma once
// A model's architecture as data, read from GGUF metadata and tensor names. If the file has
// anything that would change the arithmetic and is not known here, read_spec refuses it by name.
// Errors: unsupported_architecture, gguf_malformed. Thread safety: plain values.
#include <cstdint>
#include <string>
#include <vector>

#include "engine/core/gguf/file.hpp"
#include "schemas/base/error.hpp"

namespace millrace::engine {

enum class RopeKind : std::uint8_t {
  pairs,  // rotates channels (2i, 2i+1): llama, whose rows GGUF permutes for this
  halves  // rotates channels (i, i + rope_dim / 2): qwen2
};

// Variations of plain causal attention, the same in all layers (kernels/attention/shape.cl).
struct AttentionShape {
  std::uint32_t window = 0;  // positions a query sees, its own the last of them; 0: all
  float soft_cap = 0.0f;     // scores become soft_cap * tanh(score / soft_cap); 0: no cap
  bool sinks = false;        // each query head has a logit that joins its softmax without a value
};

struct ModelSpec {
  std::string architecture, name;
  std::uint32_t layers = 0, width = 0, ffn_width = 0, vocabulary = 0, context_tokens = 0;
  std::uint32_t heads = 0, kv_heads = 0, head_dim = 0;
  AttentionShape attention{};
  float norm_epsilon = 0.0f;
  RopeKind rope = RopeKind::pairs;
  std::uint32_t rope_dim = 0;
  double rope_base = 10000.0;
  double rope_linear_factor = 1.0;            // divides positions
  std::vector<float> rope_frequency_factors;  // [rope_dim / 2], divide frequencies; or empty
  bool tied_output = false;                   // logits use the embedding matrix
};

Result<ModelSpec> read_spec(const GgufFile& file);

}  // namespace millrace::engine
