#pragma once
// Keys that a codec would store without what tells tokens apart.
//
// Some models (Qwen2 is known for it) add a constant to every key of a head, many times as large as
// what differs between tokens. It moves all scores of a query alike and costs nothing in floating
// point; but a codec's error grows with what it is given, the constant included: with the norm of
// the vector in a rotated codec, with the range of a group in an affine one.
//
// The figure of a head and a codec is how many times as large the error is as it would be, if keys
// were only what tells tokens apart, spread over all channels alike:
//
//   figure  sqrt(E / own)
//   own     mean square of a key less the mean key, before RoPE, which would turn the mean away
//   E       rotated: mean square of a key; affine: sum over groups of g channels of
//           g * range^2 / (the mean square range of g normal numbers)
//
// A head at its limit or beyond has outliers. At 10, codes of four bits err by as much as tokens
// differ. SmolLM2-135M, all of whose layers do well in four bits, has no head over 5.8 in rotated
// and 7.6 in affine codecs. Eight bits err a sixteenth of what four bits do: their limit is 40, an
// error of a quarter of what tells tokens apart. Halves have none.
//
// Thread safety: pure functions.
#include <cstdint>
#include <limits>
#include <string_view>
#include <vector>

#include "engine/core/kv/policy.hpp"

namespace millrace::engine {

// Of one KV head.
struct HeadKeys {
  std::vector<float> keys;  // [tokens][head_dim] as they would be stored
  double own = 0;           // as above, in all channels together
};
using LayerKeys = std::vector<HeadKeys>;  // by head; empty: nothing is known of the layer

// A test of all layers: where the keys come from, for people, and the keys by layer.
struct KeySample {
  std::string_view of;
  std::vector<LayerKeys> layers;
};

double outlier_figure(const KvCodec& codec, const LayerKeys& keys, std::uint32_t head_dim);
double outlier_limit(const KvCodec& codec);

// A layer whose keys have outliers.
struct OutlierLayer {
  std::uint32_t layer = 0;
  std::string_view sample;       // by which it was found
  KvCodec asked, kept;           // of keys
  double figure = 0, limit = 0;  // of `asked`
};

bool quantizes_keys(const KvLayers& layers);
// Has the keys of such layers stored with eight bits of the same kind, or in halves where these
// find outliers too; values stay as they are.
std::vector<OutlierLayer> protect_outliers(KvLayers& layers, const std::vector<KeySample>& samples,
                                           std::uint32_t head_dim);

}  // namespace millrace::engine
