#include "engine/core/kv/policy.hpp"

#include <algorithm>

namespace millrace::engine {
namespace {

constexpr std::uint64_t line_bytes = 64;

}  // namespace

std::uint64_t layer_page_bytes(const KvCodecs& codecs, std::uint32_t kv_heads,
                               std::uint32_t head_dim) {
  std::uint64_t head = 0;
  for (const KvCodec& codec : {codecs.key, codecs.value}) {
    head += code_bytes(codec, kv_page_tokens, head_dim) +
            parameter_bytes(codec, kv_page_tokens, head_dim);
  }
  return (kv_heads * head + line_bytes - 1) / line_bytes * line_bytes;
}

std::string KvLayers::name() const {
  std::string out;
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t end = i + 1;
    while (end < layers.size() && layers[end] == layers[i]) ++end;
    out += (i == 0 ? "" : ", ") + layers[i].name() + " x" + std::to_string(end - i);
    i = end;
  }
  return out;
}

double KvLayers::bytes_per_token(const KvShape& shape) const {
  std::uint64_t page = 0;
  for (const KvCodecs& codecs : layers) {
    for (const KvCodec& codec : {codecs.key, codecs.value}) {
      page += code_bytes(codec, kv_page_tokens, shape.head_dim) +
              parameter_bytes(codec, kv_page_tokens, shape.head_dim);
    }
  }
  return static_cast<double>(page) * shape.kv_heads / kv_page_tokens;
}

double KvLayers::compression(const KvShape& shape) const {
  const double halves = 2.0 * 2.0 * shape.kv_heads * shape.head_dim;
  return halves * static_cast<double>(layers.size()) / bytes_per_token(shape);
}

Result<KvLayers> resolve(const KvPolicy& policy, const KvShape& shape) {
  MILLRACE_TRY(check_head_size(policy.codecs.key, shape.head_dim));
  MILLRACE_TRY(check_head_size(policy.codecs.value, shape.head_dim));
  const KvProtection& kept = policy.protection;
  const auto outside = [&](std::uint32_t layer) { return layer >= shape.layers; };
  if (kept.first > shape.layers || kept.last > shape.layers ||
      std::ranges::any_of(kept.layers, outside)) {
    return fail(Code::invalid_value,
                "--kv-protect " + kept.option() + ": the model has " +
                    std::to_string(shape.layers) + (shape.layers == 1 ? " layer" : " layers") +
                    ", numbered from 0",
                "name layers that it has, or leave out --kv-protect");
  }
  KvLayers out;
  for (std::uint32_t i = 0; i < shape.layers; ++i) {
    out.layers.push_back(kept.covers(i, shape.layers) ? policy.codecs.unpacked() : policy.codecs);
  }
  return out;
}

}  // namespace millrace::engine
