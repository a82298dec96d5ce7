#pragma once
// Pages of keys and values as kernels/kv/README.md draws them, read and written on the host, in
// float64: what tests hold the kernels to. Thread safety: plain values.
#include <cstdint>
#include <vector>

#include "engine/core/kv/policy.hpp"
#include "tests/support/device.hpp"

namespace millrace::testing {

// A token's place.
struct KvPlace {
  std::uint32_t page = 0, kv_head = 0, slot = 0;
};

// A vector as it is stored: codes of its channels; scale and bias of each group, or one norm.
struct KvCode {
  std::vector<std::uint32_t> codes;
  std::vector<double> parameters;
};

// The reference's codec (kv_codecs.py) in float64; `seed` chooses the signs of rotated codecs. NaN
// among the channels gives NaN parameters: a norm, or its group's scale and bias.
KvCode encode(const engine::KvCodec& codec, std::uint64_t seed, const std::vector<double>& x);
std::vector<double> decode(const engine::KvCodec& codec, std::uint64_t seed, const KvCode& code);

// x times (-1)^popcount(i & j); x times the signs of `seed`.
std::vector<double> hadamard(std::vector<double> x);
std::vector<double> flipped(std::vector<double> x, std::uint64_t seed);

// Nearest half, ties to even, within +-65504; NaN stays NaN.
double as_half(double x);

struct KvPage {
  engine::KvCodecs codecs;
  std::uint32_t kv_heads = 1, head_dim = 64;
  using Bytes = std::vector<std::uint8_t>;

  // Pages of random codes; their halves are NaN.
  Bytes unwritten(std::size_t pages, Random& random) const;
  // A key and a value of random codes and moderate parameters.
  void write_random(Bytes& bytes, const KvPlace& place, Random& random) const;
  // Codes and parameters as stored; a key or value of halves has its halves as parameters.
  KvCode stored(const Bytes& bytes, const KvPlace& place, bool is_key) const;
  // As channels.
  std::vector<double> key(const Bytes& bytes, const KvPlace& place) const;
  std::vector<double> value(const Bytes& bytes, const KvPlace& place) const;

 private:
  std::size_t codes_at(const KvPlace& place, bool is_key) const;
  std::size_t half_at(const KvPlace& place, bool is_key, std::uint32_t index) const;
  std::uint32_t halves(bool is_key) const;  // a token
};

}  // namespace millrace::testing
