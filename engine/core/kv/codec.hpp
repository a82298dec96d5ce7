#pragma once
// Codecs of keys and values: how one token's head vector is stored (DESIGN section 7). A codec is a
// description; kernels are compiled from it (kernels/kv/README.md has bit layouts and arithmetic).
//
//   f16      halves                                                        16 bits an element
//   q<b>g<g> affine: b-bit codes, a half scale and bias per g channels     b + 32/g
//   r<b>     rotated codebook: b-bit indices, one half norm a vector       b + 16/head size
//
// Thread safety: plain values.
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace::engine {

enum class CodecKind : std::uint8_t { f16, affine, rotated };

struct KvCodec {
  CodecKind kind = CodecKind::f16;
  std::uint32_t bits = 16;  // of a code
  std::uint32_t group = 0;  // channels that share scale and bias; 0 unless affine
  friend auto operator<=>(const KvCodec&, const KvCodec&) = default;
};

std::string codec_name(const KvCodec& codec);  // "q8g64"
// Errors: invalid_value, naming what there is.
Result<KvCodec> parse_kv_codec(std::string_view text);
// Whether heads of that size can be stored so. Errors: unsupported_field, with the reason.
Status check_head_size(const KvCodec& codec, std::uint32_t head_dim);

// Bytes of one KV head's codes, and of its scales, biases or norms, for so many tokens.
std::uint64_t code_bytes(const KvCodec& codec, std::uint32_t tokens, std::uint32_t head_dim);
std::uint64_t parameter_bytes(const KvCodec& codec, std::uint32_t tokens, std::uint32_t head_dim);

}  // namespace millrace::engine
