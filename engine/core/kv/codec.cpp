#include "engine/core/kv/codec.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace millrace::engine {
namespace {

constexpr std::array<std::uint32_t, 6> affine_bits{8, 6, 5, 4, 3, 2};
constexpr std::array<std::uint32_t, 3> affine_groups{32, 64, 128};
constexpr std::array<std::uint32_t, 6> rotated_bits{8, 6, 5, 4, 3, 2};
// Heads that the layout of packed codes and the rotation know.
constexpr std::array<std::uint32_t, 4> packed_head_sizes{64, 96, 128, 256};

std::optional<std::uint32_t> parse_number(std::string_view text) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || text.front() == '0') {
    return std::nullopt;
  }
  return value;
}

bool has(const auto& list, std::optional<std::uint32_t> value) {
  return value && std::ranges::find(list, *value) != list.end();
}

}  // namespace

std::string codec_name(const KvCodec& codec) {
  switch (codec.kind) {
    case CodecKind::f16:
      return "f16";
    case CodecKind::affine:
      return "q" + std::to_string(codec.bits) + "g" + std::to_string(codec.group);
    case CodecKind::rotated:
      return "r" + std::to_string(codec.bits);
  }
  return "unknown";
}

Result<KvCodec> parse_kv_codec(std::string_view text) {
  if (text == "f16") return KvCodec{};
  if (text.starts_with('r') && text.size() > 1) {
    const auto bits = parse_number(text.substr(1));
    if (has(rotated_bits, bits)) return KvCodec{CodecKind::rotated, *bits, 0};
  }
  const auto g = text.find('g');
  if (text.starts_with('q') && g != std::string_view::npos && g > 1 && g + 1 < text.size()) {
    const auto bits = parse_number(text.substr(1, g - 1)), group = parse_number(text.substr(g + 1));
    if (has(affine_bits, bits) && has(affine_groups, group)) {
      return KvCodec{CodecKind::affine, *bits, *group};
    }
  }
  return fail(Code::invalid_value, "there is no KV codec \"" + std::string(text) + "\"",
              "codecs are f16; q8, q6, q5, q4, q3 or q2 with g32, g64 or g128, like q8g64; and r8, "
              "r6, r5, r4, r3 or r2");
}

Status check_head_size(const KvCodec& codec, std::uint32_t head_dim) {
  if (codec.kind == CodecKind::f16) return {};
  const std::string what = "KV codec " + codec_name(codec);
  const std::string size = std::to_string(head_dim);
  if (!has(packed_head_sizes, head_dim)) {
    return fail(Code::unsupported_field,
                what + " cannot store heads of " + size +
                    " channels: packed codes are laid out for heads of 64, 96, 128 and 256",
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
    case CodecKind::f16:
      return 0;
    case CodecKind::affine:
      return 2 * half_bytes * tokens * (head_dim / codec.group);
    case CodecKind::rotated:
      return half_bytes * tokens;
  }
  return 0;
}

}  // namespace millrace::engine
