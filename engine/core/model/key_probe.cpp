#include "engine/core/model/key_probe.hpp"

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/model/key_center.hpp"
#include "engine/core/model/kv_shape.hpp"
#include "engine/core/model/rope_tables.hpp"
#include "engine/core/model/stored_keys.hpp"
#include "schemas/base/log.hpp"

namespace millrace::engine {
namespace {

constexpr std::array<PageId, probe_pages> pages{0, 1, 2, 3};

// Ids by Knuth's multiplicative hash, which spreads them evenly over any vocabulary.
Tokens walk(std::uint32_t count, std::uint32_t vocabulary) {
  Tokens out;
  for (std::uint32_t i = 1; i <= count; ++i) {
    const std::uint64_t at = i * 2654435761u;
    out.push_back(static_cast<TokenId>(at * vocabulary >> 32));
  }
  return out;
}

Status read_walk(Model& model, const Tokens& tokens, std::uint32_t step_tokens) {
  const auto count = static_cast<std::uint32_t>(tokens.size());
  for (std::uint32_t at = 0; at < count; at += step_tokens) {
    StepPlan plan;
    PlanRow row{.first_position = at, .count = std::min(step_tokens, count - at)};
    row.page_count = probe_pages;
    row.keep_states_at(0);
    plan.tokens.assign(tokens.begin() + at, tokens.begin() + at + row.count);
    plan.pages.assign(pages.begin(), pages.end());
    plan.rows.push_back(row);
    MILLRACE_TRY(model.forward(plan, {}));
  }
  return {};
}

// Returns a key as it was before RoPE; `turns` are the cosines and sines of its position.
std::vector<double> turned_back(const RopeSpec& rope, const float* turns,
                                std::span<const float> key) {
  std::vector<double> out(key.begin(), key.end());
  const std::uint32_t half = rope.dim / 2;
  for (std::uint32_t i = 0; i < half; ++i) {
    const auto cosine = static_cast<double>(turns[2 * i]);
    const auto sine = static_cast<double>(turns[2 * i + 1]);
    double& a = out[rope.kind == RopeKind::pairs ? 2 * i : i];
    double& b = out[rope.kind == RopeKind::pairs ? 2 * i + 1 : i + half];
    const double first = a * cosine + b * sine;
    b = b * cosine - a * sine;
    a = first;
  }
  return out;
}

HeadKeys head_keys(const AttentionSpec& attention, const std::vector<float>& turns,
                   StoredKeys& stored, std::uint32_t layer, std::uint32_t head,
                   std::uint32_t tokens) {
  HeadKeys out;
  std::vector<double> sum(attention.head_dim);
  double squares = 0;
  for (std::uint32_t token = 1; token < tokens; ++token) {
    const std::span<const float> key = stored.key(layer, head, token);
    out.keys.insert(out.keys.end(), key.begin(), key.end());
    const auto flat =
        turned_back(attention.rope, &turns[std::size_t{token} * attention.rope.dim], key);
    for (std::uint32_t c = 0; c < attention.head_dim; ++c) {
      sum[c] += flat[c];
      squares += flat[c] * flat[c];
    }
  }
  const double count = tokens - 1;
  for (const double x : sum) squares -= x * x / count;
  out.own = std::max(0.0, squares / (count - 1));
  return out;
}

Result<LayerKeys> bias_of_layer(const GgufFile& file, const ModelSpec& spec, std::uint32_t layer) {
  const KvHeads heads = kv_shape(spec).layers[layer];
  const std::string prefix = "blk." + std::to_string(layer) + ".";
  const Tensor* const bias = file.find_tensor(prefix + "attn_k.bias");
  // A norm of the keys takes away what a bias would make large.
  const LayerSpec& kind = spec.layers[layer];
  if (bias == nullptr || !heads.exist() || kind.attention.head_norm != HeadNorm::none) {
    return LayerKeys{};
  }
  MILLRACE_ASSIGN(const Tensor* weight, file.tensor(prefix + "attn_k.weight"));
  std::vector<float> biases(heads.channels());
  std::vector<float> scales(spec.width, 1.0f), row(spec.width);
  MILLRACE_TRY(dequantize_rows(*bias, 0, 1, biases));
  if (kind.placement != NormPlacement::after) {
    MILLRACE_ASSIGN(const Tensor* norm, file.tensor(prefix + kind.norms.attention + ".weight"));
    MILLRACE_TRY(dequantize_rows(*norm, 0, 1, scales));
  }
  LayerKeys out(heads.kv_heads);
  for (std::uint32_t r = 0; r < biases.size(); ++r) {
    HeadKeys& head = out[r / heads.head_dim];
    head.keys.push_back(biases[r]);
    MILLRACE_TRY(dequantize_rows(*weight, r, 1, row));
    for (std::uint32_t c = 0; c < spec.width; ++c) {
      const double part = static_cast<double>(row[c]) * static_cast<double>(scales[c]);
      head.own += part * part;
    }
  }
  return out;
}

void log_outliers(const KvLayers& asked, const std::vector<KeySample>& samples,
                  const std::vector<OutlierLayer>& found, const KvShape& shape) {
  double largest = 0;
  for (std::size_t i = 0; i < asked.layers.size(); ++i) {
    for (const KeySample& sample : samples) {
      largest = std::max(
          largest, outlier_figure(asked.layers[i].key, sample.layers[i], shape.layers[i].head_dim));
    }
  }
  log_info("keys were tested for outliers",
           {{"layers", asked.layers.size()}, {"protected", found.size()}, {"largest", largest}});
  for (const OutlierLayer& layer : found) {
    log_info("keys of a layer have outliers: it is protected", {{"layer", layer.layer},
                                                                {"found_in", layer.sample},
                                                                {"figure", layer.figure},
                                                                {"limit", layer.limit},
                                                                {"keys", codec_name(layer.asked)},
                                                                {"kept", codec_name(layer.kept)}});
  }
}

// Subtracts the means. All positions of the probe are in the first segment.
void center(KeySample& probe, const ModelSpec& spec, const KeyMeans& means) {
  for (std::uint32_t i = 0; i < spec.layer_count(); ++i) {
    const AttentionSpec& attention = spec.layers[i].attention;
    if (!attention.stores()) continue;
    const KeyCenter centers(attention, 1);
    const std::vector<float> mean = centers.table(means.layer(i));
    for (std::size_t head = 0; head < probe.layers[i].size(); ++head) {
      std::vector<float>& keys = probe.layers[i][head].keys;
      for (std::size_t c = 0; c < keys.size(); ++c) {
        keys[c] -= mean[head * attention.head_dim + c % attention.head_dim];
      }
    }
  }
}

}  // namespace

Result<KeySample> keys_of_biases(const GgufFile& file, const ModelSpec& spec) {
  KeySample out{"biases", {}};
  for (std::uint32_t i = 0; i < spec.layer_count(); ++i) {
    MILLRACE_ASSIGN(LayerKeys layer, bias_of_layer(file, spec, i));
    out.layers.push_back(std::move(layer));
  }
  return out;
}

Result<KeySample> keys_of_probe(Device& device, Model& model, const ModelSpec& spec,
                                std::uint32_t step_tokens) {
  KeySample out{"probe", std::vector<LayerKeys>(spec.layer_count())};
  const std::uint32_t count = std::min(probe_pages * kv_page_tokens, spec.context_tokens);
  if (count < 3) return out;  // differences need two keys, and the first token is left out
  MILLRACE_TRY(read_walk(model, walk(count, spec.vocabulary), step_tokens));
  const KvShape shape = kv_shape(spec);
  StoredKeys stored(model, spec);
  MILLRACE_TRY(stored.read(device, pages));
  const RopeTables turns(spec, count);
  for (std::uint32_t i = 0; i < spec.layer_count(); ++i) {
    for (std::uint32_t head = 0; head < shape.layers[i].kv_heads; ++head) {
      out.layers[i].push_back(
          head_keys(spec.layers[i].attention, turns.layer(i), stored, i, head, count));
    }
  }
  return out;
}

Result<std::vector<OutlierLayer>> test_keys(Device& device, const GgufFile& file, Model& halves,
                                            const ModelSpec& spec, const ModelOptions& options,
                                            KvLayers& kv) {
  std::vector<KeySample> samples(1);
  MILLRACE_ASSIGN(samples[0], keys_of_probe(device, halves, spec, options.step_tokens));
  if (options.key_means) {
    center(samples[0], spec, *options.key_means);
  } else {
    MILLRACE_ASSIGN(KeySample biases, keys_of_biases(file, spec));
    samples.push_back(std::move(biases));
  }
  const KvLayers asked = kv;
  const KvShape shape = kv_shape(spec);
  auto found = protect_outliers(kv, samples, shape);
  log_outliers(asked, samples, found, shape);
  return found;
}

}  // namespace millrace::engine
