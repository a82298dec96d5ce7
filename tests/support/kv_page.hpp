#pragma once
// Reads and writes pages of keys and values, as kernels/kv/README.md draws them, on the host and in
// float64. Tests compare the kernels with it. Thread safety: plain values.
#include <cstdint>
#include <vector>

#include "engine/core/kv/policy.hpp"
#include "tests/support/device.hpp"

namespace millrace::testing {

// The place of a token's key and value.
struct KvPlace {
  std::uint32_t page = 0, kv_head = 0, slot = 0;
};

// A stored vector: codes of its channels, and scale and bias of each group, or one norm; of a plain
// codec, the channels alone, as parameters.
struct KvCode {
  std::vector<std::uint32_t> codes;
  std::vector<double> parameters;
};

// The reference's codecs (kv_codecs.py) in float64; `seed` chooses the signs of rotated codecs. NaN
// among the channels makes parameters NaN: the norm, or its group's scale and bias.
KvCode encode(const engine::KvCodec& codec, std::uint64_t seed, const std::vector<double>& x);
std::vector<double> decode(const engine::KvCodec& codec, std::uint64_t seed, const KvCode& code);

// hadamard multiplies x by (-1)^popcount(i & j), flipped by the signs of `seed`.
std::vector<double> hadamard(std::vector<double> x);
std::vector<double> flipped(std::vector<double> x, std::uint64_t seed);

// Rounds to the nearest half, ties to even, clamped to +-65504; NaN stays NaN.
double as_half(double x);

struct KvPage {
  engine::KvCodecs codecs;
  std::uint32_t kv_heads = 1, head_dim = 64;
  using Bytes = std::vector<std::uint8_t>;

  // Returns pages with random codes, whose halves and floats are NaN.
  Bytes unwritten(std::size_t pages, Random& random) const;
  // Writes a key and a value with random codes and moderate parameters.
  void write_random(Bytes& bytes, const KvPlace& place, Random& random) const;
  // Returns stored codes and parameters; the parameters of a plain key or value are its channels.
  KvCode stored(const Bytes& bytes, const KvPlace& place, bool is_key) const;
  // Return the decoded channels. Values that are channels of keys are not to be asked for.
  std::vector<double> key(const Bytes& bytes, const KvPlace& place) const;
  std::vector<double> value(const Bytes& bytes, const KvPlace& place) const;

 private:
  std::size_t page_bytes() const;
  std::size_t codes_at(const KvPlace& place, bool is_key) const;
  // The numbers of a token that are no codes: plain channels or parameters, their bytes, and the
  // place and value of each.
  std::uint32_t numbers(bool is_key) const;
  std::size_t number_bytes(bool is_key) const;
  std::size_t number_at(const KvPlace& place, bool is_key, std::uint32_t index) const;
  double read(const Bytes& bytes, std::size_t at, bool is_key) const;
  // `bits` is a half; a float gets its value, and `more` as the bits that a half lacks.
  void write(Bytes& bytes, std::size_t at, bool is_key, std::uint32_t bits,
             std::uint32_t more) const;
};

}  // namespace millrace::testing
