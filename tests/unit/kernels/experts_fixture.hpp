#pragma once
// A layer of experts with random weights, as a GGUF file, and its results in float64: the routing
// as transformers computes it, then the products. The reference of math fast computes with the same
// 8-bit codes as the kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/gguf/half.hpp"
#include "engine/core/model/experts.hpp"
#include "kernels/quantize/code_block.h"
#include "tests/support/device.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/random_blocks.hpp"

namespace millrace::testing {

using engine::ExpertsSpec;
using engine::Gate;
using engine::MathMode;
using engine::TensorType;

struct ExpertsCase {
  ExpertsSpec spec;
  Gate gate = Gate::silu;
  std::uint32_t width = 96;
  TensorType gate_type = TensorType::f32, up_type = TensorType::f32, down_type = TensorType::f32;
  bool biases = false;        // of the router and of all experts
  bool fused_tensor = false;  // gate and up are one tensor of the file
  bool lopsided = false;      // with `biases`: every token chooses expert 1, and none expert 2
};

// A row's products: the sum, and the sum of the terms' magnitudes for error bounds.
struct Sum {
  double value = 0, size = 0;
};

// The matrices of all experts, [experts][rows][columns].
inline float to_half(float value) {
  return engine::half_to_float(engine::float_to_half(value));
}

struct HostMatrix {
  std::uint32_t rows = 0, columns = 0;
  std::vector<std::byte> bytes;
  std::vector<float> values, bias;  // bias [experts][rows], or empty

  // With `halves` of the weights rounded to halves.
  Sum times(std::uint32_t expert, std::uint32_t row, const std::vector<double>& x,
            bool halves = false) const {
    const std::size_t at = std::size_t{expert} * rows + row;
    Sum sum;
    if (!bias.empty()) sum = {bias[at], std::fabs(bias[at])};
    for (std::uint32_t k = 0; k < columns; ++k) {
      const float weight = values[at * columns + k];
      const double term = double{halves ? to_half(weight) : weight} * x[k];
      sum.value += term;
      sum.size += std::fabs(term);
    }
    return sum;
  }
};

struct Routed {
  std::vector<std::uint32_t> chosen;
  std::vector<double> weights;  // of the chosen, then of the shared expert
};

// The activation by its definition.
inline double host_gate(Gate kind, double gate, double up) {
  if (kind == Gate::silu) return gate / (1 + std::exp(-gate)) * up;
  if (kind == Gate::gelu) {
    const double v = std::sqrt(2 / std::acos(-1.0)) * (gate + 0.044715 * gate * gate * gate);
    return gate / 2 * (1 + std::tanh(v)) * up;
  }
  const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
  return g / (1 + std::exp(-1.702 * g)) * (u + 1);
}

// Rounds values to 8-bit codes in blocks of 32 (kernels/quantize/block.cl); returns the largest
// scale, which bounds how much a code that is rounded to the other side changes.
inline double host_quantize(std::vector<double>& values) {
  double largest = 0;
  for (std::size_t b = 0; b < values.size(); b += 32) {
    double top = 0;
    for (std::size_t i = b; i < b + 32; ++i) top = std::max(top, std::fabs(values[i]));
    const double scale = top / 127;
    for (std::size_t i = b; i < b + 32 && top > 0; ++i) {
      values[i] = std::nearbyint(values[i] / scale) * scale;
    }
    largest = std::max(largest, scale);
  }
  return largest;
}

// The same for codes that are halves of a sixteenth.
inline double host_halves(std::vector<double>& values) {
  double largest = 0;
  for (double& value : values) {
    largest = std::max(largest, std::fabs(value));
    value = double{to_half(static_cast<float>(value / 16))} * 16;
  }
  return largest * 0x1p-11;
}

// How a product rounds what it reads: not at all in math exact, otherwise to a family's codes.
enum class Rounding : std::uint8_t { none, integers, halves };

class ExpertsLayer {
 public:
  ExpertsLayer(const ExpertsCase& of, std::uint64_t seed) : shape(of), random_(seed) {
    const ExpertsSpec& spec = of.spec;
    router_ = make(TensorType::f32, spec.count, of.width, 1, of.biases);
    if (of.lopsided) {
      router_.bias[1] = 50;
      router_.bias[2] = -50;
    }
    add("ffn_gate_inp", TensorType::f32, router_, 1);
    if (spec.shared_gate) {
      shared_gate_ = make(TensorType::f32, 1, of.width, 1, false);
      add_tensor("ffn_gate_inp_shexp.weight", {of.width}, TensorType::f32, shared_gate_.bytes);
    }
    if (spec.selection_bias) {
      selection_bias_ = random_.floats(spec.count, -0.5f, 0.5f);
      add_floats("exp_probs_b.bias", {spec.count}, selection_bias_);
    }
    gate_ = make(of.gate_type, spec.width, of.width, spec.count, of.biases);
    up_ = make(of.up_type, spec.width, of.width, spec.count, of.biases);
    down_ = make(of.down_type, of.width, spec.width, spec.count, of.biases);
    if (of.fused_tensor) {
      add("ffn_gate_up_exps", of.gate_type, interleaved(), spec.count);
    } else {
      add("ffn_gate_exps", of.gate_type, gate_, spec.count);
      add("ffn_up_exps", of.up_type, up_, spec.count);
    }
    add("ffn_down_exps", of.down_type, down_, spec.count);
    if (spec.shared_width == 0) return;
    const std::uint32_t shared = spec.shared_width;
    add("ffn_gate_shexp", TensorType::f32, make(TensorType::f32, shared, of.width, 1, false), 1);
    add("ffn_up_shexp", TensorType::f32, make(TensorType::f32, shared, of.width, 1, false), 1);
    add("ffn_down_shexp", TensorType::f32, make(TensorType::f32, of.width, shared, 1, false), 1);
  }

  engine::GgufFile file() const {
    return must(engine::GgufFile::parse(engine::bytes_of(builder.build()), "experts.gguf"));
  }

  // Routes as the modules of transformers do: scores, the choice with bias among the best groups,
  // weights without bias, normalization and scale.
  Routed route(const std::vector<double>& x) const {
    const ExpertsSpec& spec = shape.spec;
    std::vector<double> logits(spec.count);
    for (std::uint32_t e = 0; e < spec.count; ++e) logits[e] = router_.times(0, e, x).value;
    std::vector<double> p = logits;
    if (spec.router == engine::Router::sigmoid) {
      for (double& v : p) v = 1 / (1 + std::exp(-v));
    } else if (spec.router == engine::Router::softmax) {
      p = softmax(logits);
    }
    std::vector<double> score = p;
    for (std::size_t e = 0; e < selection_bias_.size(); ++e) score[e] += selection_bias_[e];
    if (spec.groups > 1) keep_groups(score);
    Routed out;
    out.chosen = best(score, spec.used);
    for (const std::uint32_t e : out.chosen) out.weights.push_back(p[e]);
    if (spec.router == engine::Router::softmax_of_chosen) out.weights = softmax(out.weights);
    const double sum = std::accumulate(out.weights.begin(), out.weights.end(), 1e-20);
    for (double& w : out.weights) w *= spec.scale / (spec.normalized ? sum : 1.0);
    const bool gated = spec.shared_gate;
    out.weights.push_back(gated ? 1 / (1 + std::exp(-shared_gate_.times(0, 0, x).value)) : 1.0);
    return out;
  }

  // The result of expert `e` for x, and the error that fp32 and, with `codes`, a few differently
  // rounded codes may make.
  std::vector<Sum> expert(std::uint32_t e, const std::vector<double>& x, Rounding rounding) const {
    const bool halves = rounding == Rounding::halves;
    std::vector<double> activated(shape.spec.width);
    for (std::uint32_t i = 0; i < shape.spec.width; ++i) {
      activated[i] = host_gate(shape.gate, gate_.times(e, i, x, halves).value,
                               up_.times(e, i, x, halves).value);
    }
    const double step = halves                           ? host_halves(activated)
                        : rounding == Rounding::integers ? host_quantize(activated)
                                                         : 0.0;
    std::vector<Sum> out(shape.width);
    for (std::uint32_t r = 0; r < shape.width; ++r) {
      const Sum sum = down_.times(e, r, activated, halves);
      double most = 0;
      for (std::uint32_t k = 0; k < shape.spec.width; ++k) {
        const std::size_t row = std::size_t{e} * shape.width + r;
        most = std::max(most, std::fabs(double{down_.values[row * shape.spec.width + k]}));
      }
      out[r] = {sum.value, 4e-6 * sum.size + 2 * step * most};
    }
    return out;
  }

  const ExpertsCase shape;
  GgufBuilder builder;

 private:
  static std::vector<double> softmax(const std::vector<double>& logits) {
    const double top = *std::ranges::max_element(logits);
    std::vector<double> out;
    for (const double l : logits) out.push_back(std::exp(l - top));
    const double sum = std::accumulate(out.begin(), out.end(), 0.0);
    for (double& p : out) p /= sum;
    return out;
  }
  static std::vector<std::uint32_t> best(const std::vector<double>& score, std::uint32_t count) {
    std::vector<std::uint32_t> order(score.size());
    std::iota(order.begin(), order.end(), 0u);
    std::ranges::stable_sort(order, [&](auto a, auto b) { return score[a] > score[b]; });
    order.resize(count);
    return order;
  }
  void keep_groups(std::vector<double>& score) const {
    const std::uint32_t size = shape.spec.count / shape.spec.groups;
    std::vector<double> sums;
    for (std::uint32_t g = 0; g < shape.spec.groups; ++g) {
      std::vector<double> group(score.begin() + g * size, score.begin() + (g + 1) * size);
      std::ranges::sort(group, std::greater());
      sums.push_back(group[0] + group[1]);
    }
    const auto kept = best(sums, shape.spec.groups_used);
    for (std::uint32_t e = 0; e < score.size(); ++e) {
      if (std::ranges::find(kept, e / size) == kept.end()) score[e] = -INFINITY;
    }
  }

  HostMatrix make(TensorType type, std::uint32_t rows, std::uint32_t columns, std::uint32_t experts,
                  bool bias) {
    HostMatrix out{.rows = rows, .columns = columns, .bytes = {}, .values = {}, .bias = {}};
    const std::size_t elements = std::size_t{experts} * rows * columns;
    for (std::size_t i = 0; i < elements / engine::traits_of(type).block_elements; ++i) {
      if (type == TensorType::f32) {
        append_value(out.bytes, random_.uniform(-0.5f, 0.5f));
      } else if (type == TensorType::bf16) {
        const auto value = std::bit_cast<std::uint32_t>(random_.uniform(-0.1f, 0.1f));
        append_value(out.bytes, static_cast<std::uint16_t>(value >> 16));
      } else {
        append_random_block(out.bytes, type, random_, [&](std::uint32_t half) {
          // Scales around 0.01, minimums around -0.08.
          return static_cast<std::uint16_t>(half == 0 ? 0x2000 + random_.below(0x400)
                                                      : 0xac00 + random_.below(0x200));
        });
      }
    }
    out.values.resize(elements);
    must(engine::dequantize(type, out.bytes, out.values));
    if (bias) out.bias = random_.floats(std::size_t{experts} * rows, -1, 1);
    return out;
  }
  // Gate and up of each expert, one after the other.
  HostMatrix interleaved() const {
    HostMatrix out{
        .rows = 2 * gate_.rows, .columns = gate_.columns, .bytes = {}, .values = {}, .bias = {}};
    const auto append = [&](auto& to, const auto& from, std::uint32_t expert) {
      const std::size_t each = from.size() / shape.spec.count;
      to.insert(to.end(), from.begin() + expert * each, from.begin() + (expert + 1) * each);
    };
    for (std::uint32_t e = 0; e < shape.spec.count; ++e) {
      for (const HostMatrix* part : {&gate_, &up_}) {
        append(out.bytes, part->bytes, e);
        append(out.bias, part->bias, e);
      }
    }
    return out;
  }
  void add_tensor(const std::string& name, const std::vector<std::uint64_t>& dims, TensorType type,
                  std::span<const std::byte> bytes) {
    builder.tensor("blk.0." + name, dims, static_cast<std::uint32_t>(type), bytes);
  }
  void add_floats(const std::string& name, const std::vector<std::uint64_t>& dims,
                  const std::vector<float>& values) {
    add_tensor(name, dims, TensorType::f32, std::as_bytes(std::span(values)));
  }
  void add(const std::string& name, TensorType type, const HostMatrix& matrix,
           std::uint64_t experts) {
    std::vector<std::uint64_t> dims{matrix.columns, matrix.rows}, bias_dims{matrix.rows};
    if (experts > 1) {
      dims.push_back(experts);
      bias_dims.push_back(experts);
    }
    add_tensor(name + ".weight", dims, type, matrix.bytes);
    if (!matrix.bias.empty()) add_floats(name + ".bias", bias_dims, matrix.bias);
  }

  Random random_;
  HostMatrix router_, shared_gate_, gate_, up_, down_;
  std::vector<float> selection_bias_;
};

// What a step reads and writes, on the host. Rows and codes are those of different random numbers:
// the router reads rows, and in math fast the experts read codes.
struct ExpertsStep {
  std::uint32_t tokens = 0, stride = 0, codes_stride = 0;
  std::vector<float> rows;
  std::vector<std::int32_t> codes;
  std::vector<float> shared, before;

  ExpertsStep(std::uint32_t width, std::uint32_t count, std::uint64_t seed)
      : tokens(count),
        stride(engine::input_stride(width)),
        codes_stride(engine::code_stride(width)) {
    Random random(seed);
    // Whatever the rows after the last one hold, it must not matter.
    rows.assign(std::size_t{stride} * (tokens + engine::input_slack_rows), 1e30f);
    codes.assign(std::size_t{codes_stride} * (tokens + engine::input_slack_rows), 0x7fc00000);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint32_t i = 0; i < stride; ++i) {
        rows[std::size_t{t} * stride + i] = i < width ? random.uniform(-1, 1) : 0.0f;
      }
      for (std::uint32_t b = 0; b < (width + 31) / 32; ++b) {
        fill_block(&codes[std::size_t{t} * codes_stride + b * Q_WORDS], random);
      }
    }
    shared = random.floats(std::size_t{stride} * tokens, -1, 1);
    before = random.floats(std::size_t{stride} * tokens, -1, 1);
  }

  // Tokens [first, first + count) as a step of their own.
  ExpertsStep part(std::uint32_t first, std::uint32_t count) const {
    ExpertsStep out = *this;
    out.tokens = count;
    const auto take = [&](auto& to, const auto& from, std::size_t width) {
      to.assign(from.begin() + first * width, from.begin() + (first + count) * width);
    };
    take(out.shared, shared, stride);
    take(out.before, before, stride);
    take(out.rows, rows, stride);
    take(out.codes, codes, codes_stride);
    out.rows.resize(std::size_t{stride} * (count + engine::input_slack_rows), -1e30f);
    out.codes.resize(std::size_t{codes_stride} * (count + engine::input_slack_rows), -1);
    return out;
  }

  std::vector<double> row(std::uint32_t token, std::uint32_t width) const {
    const auto from = rows.begin() + std::size_t{token} * stride;
    return {from, from + width};
  }
  // The channels that the codes stand for.
  std::vector<double> coded(std::uint32_t token, std::uint32_t width) const {
    std::vector<double> out;
    for (std::uint32_t i = 0; i < width; ++i) {
      const std::int32_t* const block =
          &codes[std::size_t{token} * codes_stride + i / 32 * Q_WORDS];
      std::int8_t code = 0;
      std::memcpy(&code, reinterpret_cast<const char*>(block) + i % 32, 1);
      out.push_back(double{std::bit_cast<float>(block[Q_SCALE])} * code);
    }
    return out;
  }

  // The codes of a family whose codes are halves, of the same channels.
  std::vector<std::uint16_t> halves(std::uint32_t width) const {
    const std::size_t row_halves =
        2 * std::size_t{engine::code_stride(width, engine::CodeForm::halves)};
    std::vector<std::uint16_t> out(row_halves * engine::code_rows(tokens, engine::CodeForm::halves),
                                   0x7e00);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      const std::vector<double> channels = coded(t, width);
      for (std::uint32_t i = 0; i < width; ++i) {
        const std::size_t vector = H_VECTOR_AT(std::size_t{t}, i / 8, row_halves / 8);
        out[vector * 8 + i % 8] = engine::float_to_half(static_cast<float>(channels[i] / 16));
      }
    }
    return out;
  }

 private:
  static void fill_block(std::int32_t* block, Random& random) {
    std::array<std::int8_t, 32> values;
    for (auto& v : values) v = static_cast<std::int8_t>(static_cast<int>(random.below(255)) - 127);
    std::memcpy(block, values.data(), values.size());
    const int half = std::accumulate(values.begin(), values.begin() + 16, 0);
    const int sum = std::accumulate(values.begin(), values.end(), 0);
    const float scale = random.uniform(0.002f, 0.01f);
    block[Q_SCALE] = std::bit_cast<std::int32_t>(scale);
    block[Q_SUM] = std::bit_cast<std::int32_t>(scale * static_cast<float>(sum));
    block[Q_OFFSET] = -8 * sum;
    block[Q_OFFSET_HALF] = -8 * half;
  }
};

}  // namespace millrace::testing
