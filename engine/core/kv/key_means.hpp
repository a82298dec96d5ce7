#pragma once
// The mean key of each layer and KV head, which `millrace calibrate` computes from a text and
// writes to a file.
//
//   MILLRACE_ASSIGN(KeyMeans means, read_key_means(*env, "model.gguf.keys"));
//   MILLRACE_TRY(means.check({hash_model_file(file), shape}));
//
// The file is little-endian: bytes "MKEYMEAN"; uint32 version (2), layers, and of each layer KV
// heads, channels of a head (0 and 0 for a layer without keys); uint64 number of keys averaged for
// each head; two uint64 hash of the model file (in the order of its hexadecimal digits); float32 of
// each layer [KV heads][channels], before RoPE; two uint64 hash128 of all bytes before it. Errors:
// io_error, not_found; invalid_value for a file that is damaged, of another kind or version, or of
// another model, with the difference and what to do. Thread safety: plain values.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/core/kv/policy.hpp"
#include "schemas/base/env.hpp"
#include "schemas/base/error.hpp"
#include "schemas/base/hash.hpp"

namespace millrace::engine {

inline constexpr std::string_view key_means_magic = "MKEYMEAN";

struct KeyMeans {
  std::string path{};  // for messages
  Hash128 model{};     // hash of the model's file
  KvShape shape{};
  std::uint64_t tokens = 0;
  std::vector<float> values{};  // of each layer [kv_heads][head_dim]

  std::span<const float> layer(std::uint32_t index) const;
  std::string digest() const;  // 16 hexadecimal digits, of the model and the values
  // Checks that the means are of this model.
  Status check(const Hash128& of_model, const KvShape& of_shape) const;
};

std::string encode_key_means(const KeyMeans& means);
Result<KeyMeans> decode_key_means(std::string_view bytes, const std::string& path);
Result<KeyMeans> read_key_means(Env& env, const std::string& path);

}  // namespace millrace::engine
