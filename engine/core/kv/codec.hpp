#pragma once
// KV policies: how keys and values are stored (DESIGN section 7). This version stores halves; a
// policy names a codec for keys and one for values, so that others can stand beside it. What a
// page of a layer takes follows from the codec alone. Thread safety: plain values.
#include <cstdint>
#include <string>
#include <string_view>

#include "schemas/base/error.hpp"

namespace millrace::engine {

enum class KvCodec : std::uint8_t { f16 };
std::string_view codec_name(KvCodec codec);

struct KvPolicy {
  KvCodec key = KvCodec::f16, value = KvCodec::f16;
  std::string name() const;  // "f16/f16"
};

// "f16" or "KEY/VALUE". Errors: invalid_value, naming what there is.
Result<KvPolicy> parse_kv_policy(std::string_view text);

// Bytes of `tokens` positions of one head.
std::uint64_t codec_bytes(KvCodec codec, std::uint32_t tokens, std::uint32_t head_dim);

}  // namespace millrace::engine
