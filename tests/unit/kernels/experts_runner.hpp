#pragma once
// Runs a layer of experts on a family of devices, and compares what it chose and computed with
// float64 (experts_fixture.hpp).
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/model/weight_uploads.hpp"
#include "tests/support/one_layer.hpp"
#include "tests/unit/kernels/experts_fixture.hpp"

namespace millrace::testing {

struct ExpertsResult {
  std::vector<std::uint32_t> chosen;
  std::vector<float> weights, rows;
};

struct Mode {
  engine::Accumulate accumulate = engine::Accumulate::add;
  float scale = 1.0f;
};

class ExpertsRunner {
 public:
  ExpertsRunner(const ExpertsLayer& layer, const std::string& family, MathMode math,
                std::uint64_t max_allocation_bytes = 0, const engine::KernelVariant& variant = {})
      : device_(open_device({.variant = family, .max_allocation_bytes = max_allocation_bytes})),
        shape_(layer.shape),
        backend_(engine::make_backend(engine::Target(*device_, spec_of(shape_), math, variant))),
        weights_(load(*backend_, layer)) {}

  static engine::ExpertWeights load(const engine::Backend& backend, const ExpertsLayer& layer) {
    const engine::GgufFile file = layer.file();
    engine::WeightUploads uploads(backend, file);
    engine::ExpertWeights weights = must(engine::load_experts(
        backend, file, layer.shape.spec, layer.shape.gate, layer.shape.width, 0, uploads));
    must(uploads.run());
    return weights;
  }

  // Steps of up to `direct` tokens are not sorted.
  ExpertsResult run(const ExpertsStep& step, std::uint32_t direct = 1, const Mode& mode = {}) {
    engine::Experts& experts = prepared(direct);
    const bool halves = backend_->target().code_form == engine::CodeForm::halves;
    const engine::Activation x{.rows = upload(*device_, step.rows),
                               .codes = halves ? upload(*device_, step.halves(shape_.width))
                                               : upload(*device_, step.codes)};
    const bool has_shared = shape_.spec.shared_width > 0;
    const engine::Buffer shared = has_shared ? upload(*device_, step.shared) : engine::Buffer();
    const engine::Buffer out = upload(*device_, step.before);
    must(experts.run(
        weights_, {.x = x, .tokens = step.tokens, .shared = shared, .shared_stride = step.stride},
        {.rows = out, .accumulate = mode.accumulate, .scale = mode.scale}));
    const std::size_t used = shape_.spec.used;
    return {download<std::uint32_t>(*device_, experts.chosen(), used * step.tokens),
            download<float>(*device_, experts.weights(), (used + 1) * step.tokens),
            download<float>(*device_, out, step.before.size())};
  }

  const engine::ExpertWeights& weights() const { return weights_; }
  bool has_wide() const { return device_->info().compute_capability == 90; }
  Rounding rounding() const {
    const engine::Target& target = backend_->target();
    if (target.math == MathMode::exact) return Rounding::none;
    return target.code_form == engine::CodeForm::halves ? Rounding::halves : Rounding::integers;
  }

 private:
  engine::Experts& prepared(std::uint32_t direct) {
    auto& experts = by_direct_[direct];
    if (!experts) {
      experts.emplace(*backend_, shape_.spec, shape_.gate, direct);
      must(experts->prepare(weights_));
    }
    return *experts;
  }

  static engine::ModelSpec spec_of(const ExpertsCase& shape) {
    engine::ModelSpec spec = engine::one_layer({.head_dim = 32});
    spec.width = shape.width;
    return spec;
  }

  std::unique_ptr<engine::Device> device_;
  ExpertsCase shape_;
  std::unique_ptr<engine::Backend> backend_;
  engine::ExpertWeights weights_;
  std::map<std::uint32_t, std::optional<engine::Experts>> by_direct_;
};

inline void expect_routed(const ExpertsLayer& layer, const ExpertsStep& step,
                          const ExpertsResult& got) {
  const std::uint32_t used = layer.shape.spec.used;
  for (std::uint32_t t = 0; t < step.tokens; ++t) {
    const Routed want = layer.route(step.row(t, layer.shape.width));
    for (std::uint32_t r = 0; r < used; ++r) {
      ASSERT_EQ(got.chosen[t * used + r], want.chosen[r]) << "token " << t << ", rank " << r;
    }
    for (std::uint32_t r = 0; r <= used; ++r) {
      ASSERT_NEAR(got.weights[t * (used + 1) + r], want.weights[r], 4e-6 * want.weights[r])
          << "token " << t << ", rank " << r;
    }
  }
}

// The experts and weights are those of the device, which expect_routed compares.
inline void expect_rows(const ExpertsLayer& layer, const ExpertsStep& step,
                        const ExpertsResult& got, Rounding rounding, const Mode& mode) {
  const ExpertsCase& shape = layer.shape;
  const std::uint32_t used = shape.spec.used;
  for (std::uint32_t t = 0; t < step.tokens; ++t) {
    std::vector<Sum> want(shape.width);
    std::vector<double> x =
        rounding == Rounding::none ? step.row(t, shape.width) : step.coded(t, shape.width);
    if (rounding == Rounding::halves) host_halves(x);
    for (std::uint32_t r = 0; r < used; ++r) {
      const double weight = got.weights[t * (used + 1) + r];
      const auto rows = layer.expert(got.chosen[t * used + r], x, rounding);
      for (std::uint32_t i = 0; i < shape.width; ++i) {
        want[i].value += weight * rows[i].value;
        want[i].size += std::fabs(weight) * (rows[i].size + 1e-6 * std::fabs(rows[i].value));
      }
    }
    for (std::uint32_t i = 0; i < shape.width; ++i) {
      const std::size_t at = std::size_t{t} * step.stride + i;
      if (shape.spec.shared_width > 0) {
        want[i].value += double{got.weights[t * (used + 1) + used]} * step.shared[at];
      }
      const double before = mode.accumulate == engine::Accumulate::add ? step.before[at] : 0.0;
      ASSERT_NEAR(got.rows[at], before + mode.scale * want[i].value,
                  std::fabs(mode.scale) * want[i].size + 1e-6)
          << "token " << t << ", channel " << i;
    }
  }
}

}  // namespace millrace::testing
