#include "engine/core/kv/outliers.hpp"

#include <algorithm>
#include <cmath>
#include <span>

namespace millrace::engine {
namespace {

constexpr double most = 10, most_of_eight_bits = 40;
constexpr double no_limit = std::numeric_limits<double>::infinity();

// The mean square of the range of `group` normal numbers.
double square_range(std::uint32_t group) {
  return group == 32 ? 17.61 : group == 64 ? 22.38 : 27.27;
}

// E of one key, as outliers.hpp defines it: the sum of squares of a key with even channels that the
// codec would store with the same error.
double stored_size(const KvCodec& codec, std::span<const float> key) {
  double sum = 0;
  if (codec.kind == CodecKind::rotated) {
    for (const float x : key) sum += static_cast<double>(x) * static_cast<double>(x);
    return sum;
  }
  for (std::size_t at = 0; at < key.size(); at += codec.group) {
    const auto [low, high] = std::ranges::minmax(key.subspan(at, codec.group));
    const double range = static_cast<double>(high) - static_cast<double>(low);
    sum += codec.group * range * range / square_range(codec.group);
  }
  return sum;
}

double head_figure(const KvCodec& codec, const HeadKeys& head, std::uint32_t head_dim) {
  const std::span keys(head.keys);
  double sum = 0;
  for (std::size_t at = 0; at < keys.size(); at += head_dim) {
    sum += stored_size(codec, keys.subspan(at, head_dim));
  }
  if (sum == 0) return 0;  // all keys are zeros
  const double mean = sum * head_dim / static_cast<double>(keys.size());
  return head.own > 0 ? std::sqrt(mean / head.own) : no_limit;
}

// The sample with the greatest figure.
struct Worst {
  std::string_view sample;
  double figure = 0;
};

Worst worst_of(const KvCodec& codec, std::size_t layer, const std::vector<KeySample>& samples,
               std::uint32_t head_dim) {
  Worst worst;
  for (const KeySample& sample : samples) {
    const double figure = outlier_figure(codec, sample.layers[layer], head_dim);
    if (figure > worst.figure) worst = {sample.of, figure};
  }
  return worst;
}

}  // namespace

double outlier_figure(const KvCodec& codec, const LayerKeys& keys, std::uint32_t head_dim) {
  double worst = 0;
  if (!codec.packed()) return worst;
  for (const HeadKeys& head : keys) worst = std::max(worst, head_figure(codec, head, head_dim));
  return worst;
}

double outlier_limit(const KvCodec& codec) {
  if (!codec.packed()) return no_limit;
  return codec.bits < 8 ? most : most_of_eight_bits;
}

bool quantizes_keys(const KvLayers& layers) {
  return std::ranges::any_of(layers.layers,
                             [](const KvCodecs& codecs) { return codecs.key.packed(); });
}

std::vector<OutlierLayer> protect_outliers(KvLayers& layers, const std::vector<KeySample>& samples,
                                           const KvShape& shape) {
  std::vector<OutlierLayer> out;
  for (std::size_t i = 0; i < layers.layers.size(); ++i) {
    const KvCodec asked = layers.layers[i].key;
    const std::uint32_t head_dim = shape.layers[i].head_dim;
    if (!asked.packed()) continue;
    const Worst found = worst_of(asked, i, samples, head_dim);
    if (found.figure < outlier_limit(asked)) continue;
    const KvCodec eight{asked.kind, 8, asked.group};
    const bool enough = worst_of(eight, i, samples, head_dim).figure < outlier_limit(eight);
    KvCodec& kept = layers.layers[i].key;
    kept = enough ? eight : KvCodec{};
    out.push_back({static_cast<std::uint32_t>(i), found.sample, asked, kept, found.figure,
                   outlier_limit(asked)});
  }
  return out;
}

}  // namespace millrace::engine
