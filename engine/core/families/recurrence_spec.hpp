#pragma once
// A layer's recurrence as data: what a layer has in place of attention, or beside it, that keeps a
// state of constant size of everything before a token, in place of keys and values of each.
//
// With n the sublayer's normed input, `in` and `out` products, and conv the causal convolution of
// each channel with its last `taps` inputs:
//
//   convolution  [b | c | x] = in(n);  out(c * conv(b * x))
//   delta_net    [q | k | v | z | b | a] = in(n);  q, k, v = silu(conv([q | k | v]));
//                w = sigmoid(b), d = exp(A * softplus(a + dt_bias)), k = k / |k|,
//                q = q / |q| / sqrt(key_dim); for each head, with the state M [key_dim][value_dim],
//                u = w (v - d M^T k), M = d M + k u^T, y = M^T q;  out(rms(y, norm) * silu(z))
//   mamba2       [z | v | k | q | a] = in(n);  v, k, q = silu(conv([v | k | q]));
//                w = softplus(a + dt_bias), d = exp(A * w); for each head M = d M + (w k) v^T,
//                y = M^T q + D v;  out(rms(y * silu(z), norm)), a norm for each key head's values
//
// Sources: LFM2 (Liquid AI, 2025); Yang et al., "Gated Delta Networks", 2024; Dao and Gu,
// "Transformers are SSMs", 2024, whose x, B and C are v, k and q here. Thread safety: plain values.
#include <cstdint>

namespace millrace::engine {

enum class RecurrenceKind : std::uint8_t { none, convolution, delta_net, mamba2 };

struct RecurrenceSpec {
  RecurrenceKind kind = RecurrenceKind::none;
  std::uint32_t taps = 0;      // inputs of a channel that a token sees, its own the last of them
  std::uint32_t channels = 0;  // of the convolution
  // The rest is of delta nets and Mamba 2. Head h has the keys and queries of key head
  // h % key_heads if keys_in_turn, else of h / (heads / key_heads).
  std::uint32_t heads = 0, key_heads = 0, key_dim = 0, value_dim = 0;
  bool keys_in_turn = false;
  bool gates_by_key_head =
      false;           // b and a are one matrix: for each key head b, then a of its heads
  bool normed = true;  // the output has a norm: some models of Mamba 2 have none

  bool exists() const { return kind != RecurrenceKind::none; }
  bool has_heads() const { return heads > 0; }
  std::uint32_t values() const { return heads * value_dim; }
  std::uint32_t keys() const { return key_heads * key_dim; }
  // Channels of the sublayer's last product.
  std::uint32_t outputs() const { return has_heads() ? values() : channels; }
  // Numbers of a state: the heads' matrices, and the convolution's inputs before the next token.
  std::uint64_t state_floats() const {
    return std::uint64_t{values()} * key_dim + std::uint64_t{taps - 1} * channels;
  }
  bool operator==(const RecurrenceSpec&) const = default;
};

}  // namespace millrace::engine
