#pragma once
// Constants of the rotated codecs: Lloyd-Max levels of one coordinate of a random unit vector, and
// the signs of the randomized Hadamard rotation. Thread safety: pure functions.
#include <cstdint>
#include <vector>

namespace millrace::engine {

inline constexpr std::uint64_t key_sign_seed = 0, value_sign_seed = 1;

// 2^bits ascending levels in units of 1 / sqrt(head_dim), and the midpoints between them. Empty for
// a number of bits or a head size that no codec has.
std::vector<double> codebook_levels(std::uint32_t bits, std::uint32_t head_dim);
std::vector<double> codebook_thresholds(std::uint32_t bits, std::uint32_t head_dim);

// Bit i % 32 of word i / 32 says that channel i is negated. It is the top bit of output i of
// splitmix64(seed).
std::vector<std::uint32_t> sign_words(std::uint64_t seed, std::uint32_t head_dim);

}  // namespace millrace::engine
