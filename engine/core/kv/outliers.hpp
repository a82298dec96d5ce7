#pragma once
// Finds layers whose keys have outliers, so that a codec's error would hide the differences between
// tokens, and protects them.
//
// Some models (Qwen2 is known for it) add a constant to every key of a head that is many times as
// large as the differences between tokens. It moves all scores of a query alike and does no harm in
// floating point. But a codec's error grows with the whole key, the constant included: with the
// norm of the vector in a rotated codec, with the range of a group in an affine one.
//
// The figure of a head and a codec compares the codec's error with the error that it would have if
// keys held only the differences between tokens, spread evenly over all channels:
//
//   figure  sqrt(E / own)
//   own     mean square of a key minus the mean key, before RoPE, because rotated keys have no
//           common mean
//   E       rotated: mean square of a key; affine: sum over groups of g channels of
//           g * range^2 / (the mean square range of g normal numbers)
//
// A head whose figure reaches its codec's limit has outliers. At a figure of 10, which is the
// limit, the error of four bits is as large as the differences between tokens. SmolLM2-135M, all of
// whose layers do well in four bits, has no head over 5.8 in rotated and 7.6 in affine codecs. The
// error of eight bits is a sixteenth of that of four bits; their limit is 40, at which the error is
// a quarter of the differences. Plain codecs have no limit.
//
// Thread safety: pure functions.
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "engine/core/kv/policy.hpp"

namespace millrace::engine {

// Keys of one KV head.
struct HeadKeys {
  std::vector<float> keys;  // [tokens][head_dim] as they would be stored
  double own = 0;           // as above, the sum over all channels
};
using LayerKeys = std::vector<HeadKeys>;  // by head; empty: nothing is known of the layer

// Keys of all layers from one source; `of` names the source in the log.
struct KeySample {
  std::string_view of;
  std::vector<LayerKeys> layers;
};

double outlier_figure(const KvCodec& codec, const LayerKeys& keys, std::uint32_t head_dim);
double outlier_limit(const KvCodec& codec);

// A layer whose keys have outliers.
struct OutlierLayer {
  std::uint32_t layer = 0;
  std::string_view sample;       // source of the keys that showed it
  KvCodec asked, kept;           // the keys' codec in the policy, and the one in its place
  double figure = 0, limit = 0;  // of `asked`
};

bool quantizes_keys(const KvLayers& layers);
// Changes the keys' codec of such layers to eight bits of the same kind, or to halves if the keys
// have outliers for eight bits, too. Values keep their codec, and so do layers without keys.
std::vector<OutlierLayer> protect_outliers(KvLayers& layers, const std::vector<KeySample>& samples,
                                           const KvShape& shape);

}  // namespace millrace::engine
