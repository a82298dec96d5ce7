#pragma once
// Codecs of keys and values: how one token's head vector is stored. A codec is a description, named
// in schemas/base/kv_policy.hpp. Kernels are compiled from it (kernels/kv/README.md has bit layouts
// and arithmetic). Thread safety: plain values.
#include <cstdint>

#include "schemas/base/error.hpp"
#include "schemas/base/kv_policy.hpp"

namespace millrace::engine {

using millrace::codec_name;
using millrace::CodecKind;
using millrace::KvCodec;
using millrace::parse_kv_codec;

// Checks that the codec can store heads of that size. Errors: unsupported_field, with the reason.
Status check_head_size(const KvCodec& codec, std::uint32_t head_dim);

// Bytes of one KV head's codes, and of its parameters (scales, biases or norms), for `tokens`
// tokens.
std::uint64_t code_bytes(const KvCodec& codec, std::uint32_t tokens, std::uint32_t head_dim);
std::uint64_t parameter_bytes(const KvCodec& codec, std::uint32_t tokens, std::uint32_t head_dim);

}  // namespace millrace::engine
