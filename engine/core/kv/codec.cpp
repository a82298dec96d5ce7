#include "engine/core/kv/codec.hpp"

#include <algorithm>
#include <array>
#include <string>

namespace millrace::engine {
namespace {

// The head sizes for which packed codes have a layout.
constexpr std::array<std::uint32_t, 5> packed_head_sizes{64, 96, 128, 256, 512};

}  // namespace

Status check_head_size(const KvCodec& codec, std::uint32_t head_dim) {
  if (!codec.packed()) return {};
  const std::string what = "KV codec " + codec_name(codec);
  const std::string size = std::to_string(head_dim);
  if (std::ranges::find(packed_head_sizes, head_dim) == packed_head_sizes.end()) {
    return fail(Code::unsupported_field,
                what + " cannot store heads of " + size +
                    " channels: packed codes are laid out for heads of 64, 96, 128, 256 and 512",
                "use f16 with this model");
  }
  if (codec.kind == CodecKind::rotated && (head_dim & (head_dim - 1)) != 0) {
    return fail(
        Code::unsupported_field,
        what + " cannot store heads of " + size + " channels: its rotation needs a power of two",
        "use f16, or an affine codec like q8g32");
  }
  if (codec.kind == CodecKind::affine && head_dim % codec.group != 0) {
    return fail(Code::unsupported_field,
                what + " cannot store heads of " + size + " channels: groups of " +
                    std::to_string(codec.group) + " do not divide them",
                "use a smaller group, like q" + std::to_string(codec.bits) + "g32");
  }
  return {};
}

std::uint64_t code_bytes(const KvCodec& codec, std::uint32_t tokens, std::uint32_t head_dim) {
  return std::uint64_t{tokens} * head_dim * codec.bits / 8;
}

std::uint64_t parameter_bytes(const KvCodec& codec, std::uint32_t tokens, std::uint32_t head_dim) {
  constexpr std::uint64_t half_bytes = 2;
  switch (codec.kind) {
    case CodecKind::plain:
      return 0;
    case CodecKind::affine:
      return 2 * half_bytes * tokens * (head_dim / codec.group);
    case CodecKind::rotated:
      return half_bytes * tokens;
  }
  return 0;
}

}  // namespace millrace::engine
