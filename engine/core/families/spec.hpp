#pragma once
// A model's architecture as data: a list of layers, each with its attention and its feed-forward.
// read_spec() makes it from a file's metadata and tensor names by the family's own source in this
// folder; engine/core/model compiles it into operations. Nothing below this folder knows families.
//
// A layer has attention, or a recurrence in its place, or both on one norm, whose outputs are added
// one after the other; and a feed-forward. A layer of nemotron_h and mamba2 has one of these alone.
//
// Formulas. rms(x, w) = x * w / sqrt(mean(x^2) + norm_epsilon). A layer turns the residual stream x
// into, by its NormPlacement, with r = residual_scale, A its attention and F its feed-forward:
//
//   before           x += r A(norm1(x));          x += r F(norm2(x))
//   after            x += r norm1(A(x));          x += r norm2(F(x))
//   before_and_after x += r post1(A(norm1(x)));   x += r post2(F(norm2(x)))
//   parallel         n = norm1(x);  x += r (A(n) + F(n))
//
// F of experts beside a dense feed-forward D, in before_and_after, is
//
//   F(norm2(x)) = dense_post(D(norm2(x))) + experts_post(E(experts(x)))
//
// with the router's logits from rms(x, s) / sqrt(width), s the vector ffn_gate_inp.scale.
//
// A model with embeddings by layer of P channels, gemma4's E models, computes for token t and layer
// l, with x the scaled row of token_embd:
//
//   e_l = (rms(M_l x / sqrt(width), w) + sqrt(P) T_l[t]) / sqrt(2)
//
// M per_layer_model_proj, T per_layer_token_embd, w per_layer_proj_norm. After its feed-forward,
// layer l adds rms(proj (gelu(inp_gate x) * e_l), post_norm). The last step of any layer is the
// product with its output_scale.
//
// Logits are head(norm(x)) * logit_scale, then soft_cap * tanh(logit / soft_cap) if there is a cap.
// Thread safety: plain values.
#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/families/feed_forward_spec.hpp"
#include "engine/core/families/recurrence_spec.hpp"

namespace millrace::engine {

enum class RopeKind : std::uint8_t {
  none,   // does not rotate
  pairs,  // rotates channels (2i, 2i+1); GGUF permutes the rows of llama's matrices for this
  halves  // rotates channels (i, i + dim / 2)
};

// Stretches low frequencies only (Peng et al., "YaRN", 2023): frequency i becomes
// theta_i * ((1 - m) / factor + m), with m from 1 to 0 over the range of i in which a turn takes
// original_tokens / beta_fast to original_tokens / beta_slow positions.
struct Yarn {
  double factor = 1.0;
  double original_tokens = 0.0;
  double beta_fast = 32.0, beta_slow = 1.0;
  bool rounds_range = true;  // the range's ends become whole numbers; not for gpt-oss
  bool operator==(const Yarn&) const = default;
};

// Channels [0, dim) of each head turn by position / linear_factor * frequency; the rest stay. With
// theta_i = base^(-2i / dim), frequency i is theta_i / divisors[i], then Yarn's.
struct RopeSpec {
  RopeKind kind = RopeKind::pairs;
  std::uint32_t dim = 0;  // even, at most head_dim; 0 for RopeKind::none
  double base = 10000.0;
  double linear_factor = 1.0;
  std::vector<float> divisors{};  // [dim / 2] or empty: llama 3's and longrope's
  std::optional<Yarn> yarn{};
  double amplitude = 1.0;  // multiplies cosines and sines
  bool operator==(const RopeSpec&) const = default;
};

enum class HeadNorm : std::uint8_t {
  none,
  by_head,     // rms over the channels of each head, weight [head_dim]
  whole_width  // rms over all heads at once, weight [heads * head_dim]
};

// Multi-head latent attention (DeepSeek-AI, "DeepSeek-V2", 2024), absorbed: keys and values of all
// heads are products of one latent c of a token, so only c and the rotated channels of the keys
// are kept. For head h, with the normed input x of the layer:
//
//   q_h     = [n | r] of attn_q x, or of attn_q_b rms(attn_q_a x, attn_q_a_norm)
//   [l | k] = attn_kv_a_mqa x;  c = rms(l, attn_kv_a_norm);  r and k are rotated
//   key     = [k | c], its value c;  the query is [r | attn_k_b_h n]
//   output  = attn_v_b_h (sum of the weighed c)
//
// AttentionSpec then has one KV head; its head_dim is that of [k | c], and rope.dim that of k.
struct LatentSpec {
  std::uint32_t rank = 0;        // the channels of c
  std::uint32_t query_rank = 0;  // of the latent of queries; 0: queries have none
  std::uint32_t plain_dim = 0;   // of n
  std::uint32_t value_dim = 0;   // of a head's output
  float norm_epsilon = 1e-6f;    // of the two norms; no file states it
  // The channels of a head's query [n | r], where a key has so many.
  std::uint32_t query_dim(std::uint32_t key_dim) const { return plain_dim + key_dim - rank; }
  bool operator==(const LatentSpec&) const = default;
};

// Causal attention: softmax(scale * q . k) v, query head h with KV head h / (heads / kv_heads).
// Layers of a model may differ in all of it. A layer without attention has 0 heads: it has no norm
// for it, and stores no keys and values.
struct AttentionSpec {
  std::uint32_t heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 0.0f;
  std::uint32_t window = 0;  // positions a query sees, its own the last of them; 0: all
  float soft_cap = 0.0f;     // scores become soft_cap * tanh(score / soft_cap); 0: no cap
  bool sinks = false;        // each query head has a logit that joins its softmax without a value
  HeadNorm head_norm = HeadNorm::none;  // of queries and keys
  bool norm_after_rope = false;         // else before it
  bool output_gate = false;  // the output is multiplied by sigmoid of a product, channel by channel
  RopeSpec rope{};
  // Queries are multiplied by 1 + beta * ln(1 + floor(position / original_tokens)); 0: not.
  float temperature_beta = 0.0f;
  std::uint32_t temperature_tokens = 0;
  std::optional<LatentSpec> latent{};
  bool normed_values = false;  // rms over the channels of each value, without a weight
  // There is no matrix of values: a value is its key before norm and rotation, normed without a
  // weight. Then head_norm is by_head, and normed_values is true.
  bool keys_are_values = false;
  // The layer whose keys and values this one attends to, of the same window and heads; it has and
  // stores none of its own.
  std::optional<std::uint32_t> cache_of{};
  bool stores() const { return exists() && !cache_of; }
  bool exists() const { return heads > 0; }
  // The channels of all heads' outputs, which attn_output reads.
  std::uint32_t columns() const { return heads * (latent ? latent->value_dim : head_dim); }
  bool operator==(const AttentionSpec&) const = default;
};

enum class NormPlacement : std::uint8_t { before, after, before_and_after, parallel };

// The names of a layer's norms, without "blk.N." and ".weight"; empty where there is none. Families
// use one name for different norms.
struct NormNames {
  std::string attention = "attn_norm", attention_post;
  std::string feed_forward = "ffn_norm", feed_forward_post;
  std::string dense_post{}, experts{}, experts_post{};  // of experts beside a dense feed-forward
  bool operator==(const NormNames&) const = default;
};

struct LayerSpec {
  AttentionSpec attention;
  RecurrenceSpec recurrence;
  FeedForwardSpec feed_forward;
  NormPlacement placement = NormPlacement::before;
  NormNames norms;
  float residual_scale = 1.0f;
  bool output_scale = false;  // in the end x is multiplied by the number layer_output_scale
  bool operator==(const LayerSpec&) const = default;
};

struct ModelSpec {
  std::string architecture, name;
  std::uint32_t width = 0, vocabulary = 0, context_tokens = 0;
  float norm_epsilon = 0.0f;
  bool centered_norms = false;   // LayerNorm without a bias in place of rms: cohere2
  float embedding_scale = 1.0f;  // multiplies the embedding's rows
  float logit_scale = 1.0f;
  float logit_soft_cap = 0.0f;              // 0: no cap
  bool tied_output = false;                 // logits use the embedding matrix
  std::string output_norm = "output_norm";  // the name of the norm before the logits
  // Channels of the embedding that a token has for each layer; a multiple of 16; 0: none.
  std::uint32_t layer_embedding = 0;
  std::vector<LayerSpec> layers;

  // Whether a sequence has states besides keys and values.
  bool has_states() const {
    return std::ranges::any_of(layers, [](const auto& layer) { return layer.recurrence.exists(); });
  }
  std::uint32_t layer_count() const { return static_cast<std::uint32_t>(layers.size()); }

  // The prompt tokens that a step should have at least. It reads the weights of every expert that a
  // token chose, soon of all; so it has enough tokens for each to get about 16 of them.
  std::uint32_t least_prefill_tokens() const {
    std::uint32_t tokens = 32;
    for (const LayerSpec& layer : layers) {
      const std::optional<ExpertsSpec>& experts = layer.feed_forward.experts;
      if (experts) tokens = std::max(tokens, 16 * experts->count / std::max(experts->used, 1u));
    }
    return tokens;
  }
};

}  // namespace millrace::engine
