#pragma once
// The forward pass in float64 and plain loops, for small models; keys and values are not rounded.
// By choice products are those of math int8 (kernels/quantize/rotate.cl), but for those of fp32
// matrices and of logits.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "tests/support/device.hpp"

namespace millrace::testing {

using Vector = std::vector<double>;

// A vector as bytes, each near it when it is multiplied by the scale.
struct RotatedBytes {
  Vector codes;
  double scale = 0;
};

// Rounds x times the Hadamard matrix of each 128 channels.
inline RotatedBytes rotated_bytes(Vector x) {
  constexpr std::size_t group = 128;
  x.resize((x.size() + group - 1) / group * group);
  for (std::size_t apart = 1; apart < group; apart *= 2) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      if ((i & apart) != 0) continue;
      const double a = x[i], b = x[i + apart];
      x[i] = a + b;
      x[i + apart] = a - b;
    }
  }
  double top = 0;
  for (const double v : x) top = std::max(top, std::fabs(v));
  RotatedBytes out{.codes = Vector(x.size()), .scale = top / 127};
  for (std::size_t i = 0; i < x.size() && top > 0; ++i) out.codes[i] = std::rint(x[i] / out.scale);
  return out;
}

enum class TruthProducts : std::uint8_t { exact, int8 };

class Truth {
 public:
  explicit Truth(const engine::GgufFile& file, TruthProducts products = TruthProducts::exact)
      : Truth(file, must(engine::read_spec(file)), products) {}
  Truth(const engine::GgufFile& file, engine::ModelSpec spec,
        TruthProducts products = TruthProducts::exact)
      : file_(file), spec_(std::move(spec)), products_(products) {}

  std::vector<Vector> logits(const Tokens& tokens) const {
    std::vector<Vector> x;
    for (const TokenId id : tokens) {
      const Vector all = values("token_embd.weight");
      x.emplace_back(all.begin() + id * spec_.width, all.begin() + (id + 1) * spec_.width);
    }
    for (std::uint32_t i = 0; i < spec_.layer_count(); ++i) {
      const std::string prefix = "blk." + std::to_string(i) + ".";
      if (spec_.layers[i].attention.exists()) attention(spec_.layers[i].attention, prefix, x);
      feed_forward(prefix, x);
    }
    for (Vector& row : x) {
      row = project(norm(row, "output_norm.weight"), spec_.tied_output ? "token_embd" : "output");
    }
    return x;
  }

 private:
  Vector values(const std::string& name) const {
    const engine::Tensor* const tensor = must(file_.tensor(name));
    std::vector<float> out(tensor->elements());
    must(engine::dequantize_rows(*tensor, 0, tensor->rows(), out));
    return {out.begin(), out.end()};
  }
  Vector project(const Vector& x, const std::string& name) const {
    const Vector w = values(name + ".weight");
    Vector out(w.size() / x.size());
    const double factor =
        file_.find_tensor(name + ".scale") == nullptr ? 1 : values(name + ".scale")[0];
    if (file_.find_tensor(name + ".bias") != nullptr) out = values(name + ".bias");
    if (has_bytes(name)) {
      const RotatedBytes by = rotated_bytes(x);
      for (std::size_t r = 0; r < out.size(); ++r) {
        const auto row = w.begin() + static_cast<std::ptrdiff_t>(r * x.size());
        out[r] += factor * product(rotated_bytes({row, row + std::ssize(x)}), by);
      }
      return out;
    }
    for (std::size_t r = 0; r < out.size(); ++r) {
      for (std::size_t k = 0; k < x.size(); ++k) out[r] += factor * w[r * x.size() + k] * x[k];
    }
    return out;
  }
  bool has_bytes(const std::string& name) const {
    return products_ == TruthProducts::int8 && name.starts_with("blk.") &&
           must(file_.tensor(name + ".weight"))->type != engine::TensorType::f32;
  }
  static double product(const RotatedBytes& a, const RotatedBytes& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.codes.size(); ++i) sum += a.codes[i] * b.codes[i];
    return sum * a.scale * b.scale / 128;
  }
  Vector norm(const Vector& x, const std::string& name) const {
    const Vector w = values(name);
    double sum = 0;
    for (const double v : x) sum += v * v;
    const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) +
                                       static_cast<double>(spec_.norm_epsilon));
    Vector out(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) out[i] = x[i] * scale * w[i];
    return out;
  }
  // llama rotates adjacent channels, qwen2 a channel of a head's first half with the one at the
  // same place in the second half.
  void rotate(const engine::AttentionSpec& spec, Vector& x, std::size_t position) const {
    const bool halves = spec_.architecture == "qwen2";
    const std::size_t half = spec.head_dim / 2;
    for (std::size_t at = 0; at < x.size() / 2; ++at) {
      const std::size_t head = at / half * spec.head_dim, i = at % half;
      const double angle =
          static_cast<double>(position) *
          std::pow(spec.rope.base, -static_cast<double>(i) / static_cast<double>(half));
      double& first = x[head + (halves ? i : 2 * i)];
      double& second = x[head + (halves ? i + half : 2 * i + 1)];
      const double a = first, b = second;
      first = a * std::cos(angle) - b * std::sin(angle);
      second = a * std::sin(angle) + b * std::cos(angle);
    }
  }
  // `sinks` has one number for each head, or is empty.
  Vector attend(const engine::AttentionSpec& spec, const Vector& q, const std::vector<Vector>& keys,
                const std::vector<Vector>& values, const Vector& sinks, std::size_t last) const {
    const std::uint32_t dim = spec.head_dim;
    const std::size_t window = spec.window;
    const std::size_t first = window == 0 || last < window ? 0 : last - window + 1;
    const double cap = spec.soft_cap;
    Vector out(q.size());
    for (std::uint32_t h = 0; h < spec.heads; ++h) {
      const std::size_t g = h / (spec.heads / spec.kv_heads) * dim;
      Vector e(last + 1);
      double mass = sinks.empty() ? 0 : std::exp(sinks[h]);
      for (std::size_t j = first; j <= last; ++j) {
        double score = 0;
        for (std::uint32_t d = 0; d < dim; ++d) score += q[h * dim + d] * keys[j][g + d];
        score /= std::sqrt(static_cast<double>(dim));
        if (cap > 0) score = cap * std::tanh(score / cap);
        mass += e[j] = std::exp(score);
      }
      for (std::size_t j = 0; j <= last; ++j) {
        for (std::uint32_t d = 0; d < dim; ++d) out[h * dim + d] += e[j] / mass * values[j][g + d];
      }
    }
    return out;
  }
  void attention(const engine::AttentionSpec& spec, const std::string& p,
                 std::vector<Vector>& x) const {
    std::vector<Vector> keys, values, queries;
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Vector h = norm(x[t], p + "attn_norm.weight");
      queries.push_back(project(h, p + "attn_q"));
      keys.push_back(project(h, p + "attn_k"));
      values.push_back(project(h, p + "attn_v"));
      rotate(spec, queries.back(), t);
      rotate(spec, keys.back(), t);
    }
    Vector sinks;
    if (spec.sinks) sinks = this->values(p + "attn_sinks.weight");
    for (std::size_t t = 0; t < x.size(); ++t) {
      add(x[t], project(attend(spec, queries[t], keys, values, sinks, t), p + "attn_output"));
    }
  }
  void feed_forward(const std::string& p, std::vector<Vector>& x) const {
    for (std::size_t t = 0; t < x.size(); ++t) {
      const Vector h = norm(x[t], p + "ffn_norm.weight");
      Vector gate = project(h, p + "ffn_gate");
      const Vector up = project(h, p + "ffn_up");
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] *= up[i] / (1 + std::exp(-gate[i]));
      add(x[t], project(gate, p + "ffn_down"));
    }
  }
  static void add(Vector& to, const Vector& what) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += what[i];
  }

  const engine::GgufFile& file_;
  engine::ModelSpec spec_;
  TruthProducts products_;
};

}  // namespace millrace::testing
