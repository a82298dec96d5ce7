#include "tests/support/kv_page.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "engine/core/gguf/half.hpp"
#include "engine/core/kv/codebook.hpp"

namespace millrace::testing {
namespace {

using engine::CodecKind;
using engine::kv_page_tokens;
using engine::KvCodec;

KvCode encode_affine(const KvCodec& codec, const std::vector<double>& x) {
  const double top = (1u << codec.bits) - 1;
  KvCode out;
  for (auto from = x.begin(); from != x.end(); from += codec.group) {
    const auto [low, high] = std::minmax_element(from, from + codec.group);
    double scale = as_half((*high - *low) / top), bias = as_half(*low);
    if (std::any_of(from, from + codec.group, [](double value) { return std::isnan(value); })) {
      scale = bias = std::nan("");
    }
    for (auto value = from; value != from + codec.group; ++value) {
      const double code = scale > 0 ? std::nearbyint((*value - bias) / scale) : 0;
      out.codes.push_back(static_cast<std::uint32_t>(std::clamp(code, 0.0, top)));
    }
    out.parameters.insert(out.parameters.end(), {scale, bias});
  }
  return out;
}

KvCode encode_rotated(const KvCodec& codec, std::uint64_t seed, const std::vector<double>& x) {
  const auto size = static_cast<std::uint32_t>(x.size());
  const auto levels = engine::codebook_levels(codec.bits, size);
  const auto cuts = engine::codebook_thresholds(codec.bits, size);
  double square = 0, dot = 0;
  for (const double value : x) square += value * value;
  const double norm = std::sqrt(square);
  KvCode out;
  for (const double value : hadamard(flipped(x, seed))) {
    const double z = value / (norm > 0 ? norm : 1);
    const auto index = std::ranges::lower_bound(cuts, z) - cuts.begin();
    out.codes.push_back(static_cast<std::uint32_t>(index));
    dot += z * levels[static_cast<std::size_t>(index)] / size;
  }
  out.parameters = {as_half(norm / (norm > 0 ? dot : 1))};
  return out;
}

}  // namespace

std::vector<double> flipped(std::vector<double> x, std::uint64_t seed) {
  const auto size = static_cast<std::uint32_t>(x.size());
  const auto words = engine::sign_words(seed, size);
  for (std::uint32_t i = 0; i < size; ++i) {
    if ((words[i / 32] >> i % 32 & 1) != 0) x[i] = -x[i];
  }
  return x;
}

double as_half(double x) {
  if (std::isnan(x)) return x;
  const double size = std::min(std::fabs(x), 65504.0);
  int exponent = 0;
  std::frexp(size, &exponent);
  const double step = std::ldexp(1.0, std::max(exponent, -13) - 11);
  return std::copysign(std::nearbyint(size / step) * step, x);
}

std::vector<double> hadamard(std::vector<double> x) {
  for (std::size_t h = 1; h < x.size(); h *= 2) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if ((i & h) != 0) continue;
      const double a = x[i], b = x[i + h];
      x[i] = a + b;
      x[i + h] = a - b;
    }
  }
  return x;
}

KvCode encode(const KvCodec& codec, std::uint64_t seed, const std::vector<double>& x) {
  if (codec.kind == CodecKind::affine) return encode_affine(codec, x);
  if (codec.kind == CodecKind::rotated) return encode_rotated(codec, seed, x);
  KvCode out;
  for (const double value : x) {
    out.parameters.push_back(codec.bits == 32 ? static_cast<float>(value) : as_half(value));
  }
  return out;
}

std::vector<double> decode(const KvCodec& codec, std::uint64_t seed, const KvCode& code) {
  if (!codec.packed()) return code.parameters;
  const std::size_t size = code.codes.size();
  std::vector<double> out(size);
  if (codec.kind == CodecKind::affine) {
    for (std::size_t i = 0; i < size; ++i) {
      const double* const pair = &code.parameters[i / codec.group * 2];
      out[i] = code.codes[i] * pair[0] + pair[1];
    }
    return out;
  }
  const auto levels = engine::codebook_levels(codec.bits, static_cast<std::uint32_t>(size));
  for (std::size_t i = 0; i < size; ++i) out[i] = levels[code.codes[i]];
  out = flipped(hadamard(std::move(out)), seed);
  for (double& value : out) value *= code.parameters[0] / static_cast<double>(size);
  return out;
}

std::size_t KvPage::codes_at(const KvPlace& place, bool is_key) const {
  const std::size_t page = page_bytes();
  const std::size_t key = engine::code_bytes(codecs.key, kv_page_tokens, head_dim);
  const std::size_t value =
      codecs.in_key ? 0 : engine::code_bytes(codecs.value, kv_page_tokens, head_dim);
  return place.page * page + place.kv_head * (key + value) + (is_key ? 0 : key);
}

std::size_t KvPage::page_bytes() const {
  return engine::layer_page_bytes(codecs, {kv_heads, head_dim, codecs.in_key});
}

std::uint32_t KvPage::numbers(bool is_key) const {
  if (!is_key && codecs.in_key) return 0;
  const KvCodec& codec = is_key ? codecs.key : codecs.value;
  if (!codec.packed()) return head_dim;
  return static_cast<std::uint32_t>(engine::parameter_bytes(codec, 1, head_dim) / 2);
}

std::size_t KvPage::number_bytes(bool is_key) const {
  const KvCodec& codec = is_key ? codecs.key : codecs.value;
  return codec.packed() ? 2 : codec.bits / 8;
}

std::size_t KvPage::number_at(const KvPlace& place, bool is_key, std::uint32_t index) const {
  const KvCodec& codec = is_key ? codecs.key : codecs.value;
  if (!codec.packed()) {
    const std::size_t at =
        is_key ? index * kv_page_tokens + place.slot : std::size_t{place.slot} * head_dim + index;
    return codes_at(place, is_key) + number_bytes(is_key) * at;
  }
  const std::size_t key = engine::parameter_bytes(codecs.key, kv_page_tokens, head_dim);
  const std::size_t value = engine::parameter_bytes(codecs.value, kv_page_tokens, head_dim);
  const std::size_t all = codes_at({place.page, kv_heads, 0}, true);
  return all + place.kv_head * (key + value) + (is_key ? 0 : key) +
         2 * (std::size_t{index} * kv_page_tokens + place.slot);
}

double KvPage::read(const Bytes& bytes, std::size_t at, bool is_key) const {
  if (number_bytes(is_key) == 2) {
    return engine::half_to_float(
        static_cast<std::uint16_t>(bytes[at] | static_cast<std::uint32_t>(bytes[at + 1]) << 8));
  }
  float value = 0;
  std::memcpy(&value, &bytes[at], sizeof value);
  return value;
}

void KvPage::write(Bytes& bytes, std::size_t at, bool is_key, std::uint32_t bits,
                   std::uint32_t more) const {
  if (number_bytes(is_key) == 4) {
    bits = std::bit_cast<std::uint32_t>(engine::half_to_float(static_cast<std::uint16_t>(bits))) |
           more;
  }
  for (std::size_t i = 0; i < number_bytes(is_key); ++i) {
    bytes[at + i] = static_cast<std::uint8_t>(bits >> 8 * i);
  }
}

KvPage::Bytes KvPage::unwritten(std::size_t pages, Random& random) const {
  Bytes bytes(pages * page_bytes());
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  for (std::uint32_t t = 0; t < pages * kv_heads * kv_page_tokens; ++t) {
    const KvPlace place{t / kv_page_tokens / kv_heads, t / kv_page_tokens % kv_heads,
                        t % kv_page_tokens};
    for (const bool is_key : {true, false}) {
      for (std::uint32_t i = 0; i < numbers(is_key); ++i) {
        write(bytes, number_at(place, is_key, i), is_key, 0x7e00, 0);
      }
    }
  }
  return bytes;
}

void KvPage::write_random(Bytes& bytes, const KvPlace& place, Random& random) const {
  for (const bool is_key : {true, false}) {
    const KvCodec& codec = is_key ? codecs.key : codecs.value;
    for (std::uint32_t i = 0; i < numbers(is_key); ++i) {
      std::uint32_t half = 0x2c00 + random.below(0x1400) + (random.below(2) << 15);
      if (random.below(32) == 0) half = random.below(2) << 15 | random.below(0x400);
      if (codec.kind == CodecKind::rotated) half = 0x3c00 + random.below(0xc00);  // 1 to 8
      if (codec.kind == CodecKind::affine && i % 2 == 0) {  // so that scale * code stays below 2
        half = 0x3c00 - 0x400 * codec.bits + random.below(0x400);
      }
      const std::uint32_t more = number_bytes(is_key) == 4 ? random.below(1u << 13) : 0;
      write(bytes, number_at(place, is_key, i), is_key, half, more);
    }
  }
}

KvCode KvPage::stored(const Bytes& bytes, const KvPlace& place, bool is_key) const {
  const KvCodec& codec = is_key ? codecs.key : codecs.value;
  KvCode out;
  for (std::uint32_t i = 0; i < numbers(is_key); ++i) {
    out.parameters.push_back(read(bytes, number_at(place, is_key, i), is_key));
  }
  if (!codec.packed()) return out;
  const std::uint32_t low = codec.bits == 8 ? 8 : codec.bits >= 4 ? 4 : 2;
  for (std::uint32_t d = 0; d < head_dim; ++d) {
    const std::uint32_t lane = is_key ? place.slot : d % 16;
    const std::uint32_t quad = is_key ? d / 4 : d / 16 * 4 + place.slot / 4;
    const std::uint32_t member = is_key ? d % 4 : place.slot % 4;
    std::uint32_t code = 0, shift = 0;
    std::size_t plane = codes_at(place, is_key);
    for (const std::uint32_t p : {low, codec.bits - low}) {
      if (p == 0) continue;
      // Each member of a quad has a byte of the word; words are little-endian.
      const std::size_t word = plane + (quad / (8 / p) * 16 + lane) * 4;
      code |= (bytes[word + member] >> p * (quad % (8 / p)) & ((1u << p) - 1)) << shift;
      shift += p;
      plane += std::size_t{2} * head_dim * p;
    }
    out.codes.push_back(code);
  }
  return out;
}

std::vector<double> KvPage::key(const Bytes& bytes, const KvPlace& place) const {
  return decode(codecs.key, engine::key_sign_seed, stored(bytes, place, true));
}

std::vector<double> KvPage::value(const Bytes& bytes, const KvPlace& place) const {
  return decode(codecs.value, engine::value_sign_seed, stored(bytes, place, false));
}

}  // namespace millrace::testing
