#include "engine/core/kv/policy.hpp"

#include <algorithm>

namespace millrace::engine {
namespace {

constexpr std::uint64_t line_bytes = 64;

// Bytes of codes and parameters of a page in one layer.
std::uint64_t stored_bytes(const KvCodecs& codecs, const KvHeads& heads) {
  std::uint64_t head = 0;
  for (const KvCodec* codec : {&codecs.key, &codecs.value}) {
    if (heads.values_in_keys && codec == &codecs.value) continue;
    head += code_bytes(*codec, kv_page_tokens, heads.head_dim) +
            parameter_bytes(*codec, kv_page_tokens, heads.head_dim);
  }
  return heads.kv_heads * head;
}

// Checks that a layer can store its values as the policy says.
Status check_values(const KvCodecs& codecs, const KvHeads& heads) {
  if (!heads.values_in_keys) {
    if (!codecs.in_key) return {};
    return fail(Code::unsupported_field,
                "KV policy " + codecs.name() + ": the values of this model are no part of its keys",
                "name a codec for values, like f16");
  }
  if (!codecs.key.packed() && codecs.key == codecs.value) return {};
  return fail(Code::unsupported_field,
              "KV policy " + codecs.name() +
                  ": the model's values are channels of its keys, so one codec stores both, and it "
                  "must be f16 or f32",
              "use f16: without values of their own, a token takes half as much anyway");
}

}  // namespace

std::size_t KvShape::channels() const {
  std::size_t sum = 0;
  for (const KvHeads& heads : layers) sum += heads.channels();
  return sum;
}

std::uint64_t layer_page_bytes(const KvCodecs& codecs, const KvHeads& heads) {
  return (stored_bytes(codecs, heads) + line_bytes - 1) / line_bytes * line_bytes;
}

Status check_centering(const KvShape& shape) {
  if (shape.channels() == 0) {
    return fail(Code::unsupported_field, "no layer of the model stores keys that could be centered",
                "leave out --kv-center; this model needs no file of mean keys");
  }
  if (std::ranges::none_of(shape.layers, &KvHeads::values_in_keys)) return {};
  return fail(Code::unsupported_field,
              "the model's values are channels of its keys, so its keys cannot be centered",
              "leave out --kv-center; this model needs no file of mean keys");
}

std::string KvLayers::name(const KvShape& shape) const {
  std::vector<KvCodecs> stored;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (shape.layers[i].exist()) stored.push_back(layers[i]);
  }
  if (stored.empty()) return layers.empty() ? "" : layers.front().name();
  std::string out;
  for (std::size_t i = 0; i < stored.size();) {
    std::size_t end = i + 1;
    while (end < stored.size() && stored[end] == stored[i]) ++end;
    out += (i == 0 ? "" : ", ") + stored[i].name() + " x" + std::to_string(end - i);
    i = end;
  }
  return out;
}

double KvLayers::bytes_per_token(const KvShape& shape) const {
  std::uint64_t page = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) page += stored_bytes(layers[i], shape.layers[i]);
  return static_cast<double>(page) / kv_page_tokens;
}

double KvLayers::compression(const KvShape& shape) const {
  std::uint64_t halves = 0;
  for (const KvHeads& heads : shape.layers) halves += stored_bytes({}, heads);
  if (halves == 0) return 1.0;
  return static_cast<double>(halves) / kv_page_tokens / bytes_per_token(shape);
}

Result<KvLayers> resolve(const KvPolicy& policy, const KvShape& shape) {
  for (const KvHeads& heads : shape.layers) {
    if (!heads.exist()) continue;
    MILLRACE_TRY(check_values(policy.codecs, heads));
    MILLRACE_TRY(check_head_size(policy.codecs.key, heads.head_dim));
    MILLRACE_TRY(check_head_size(policy.codecs.value, heads.head_dim));
  }
  const KvProtection& kept = policy.protection;
  const std::uint32_t count = shape.count();
  const auto outside = [&](std::uint32_t layer) { return layer >= count; };
  if (kept.first > count || kept.last > count || std::ranges::any_of(kept.layers, outside)) {
    return fail(Code::invalid_value,
                "--kv-protect " + kept.option() + ": the model has " + std::to_string(count) +
                    (count == 1 ? " layer" : " layers") + ", numbered from 0",
                "name layers that it has, or leave out --kv-protect");
  }
  KvLayers out;
  for (std::uint32_t i = 0; i < count; ++i) {
    const bool packs = shape.layers[i].exist() && !kept.covers(i, count);
    out.layers.push_back(packs ? policy.codecs : policy.codecs.unpacked());
    out.layers.back().in_key = shape.layers[i].values_in_keys;
  }
  return out;
}

}  // namespace millrace::engine
