// Compares a mixture of experts with float64: every router and gate function, with and without
// biases, groups and a shared expert; and the bits of a token alone with those in company, of one
// family with those of others whose codes are alike.
#include <map>
#include <memory>
#include <optional>

#include "tests/unit/kernels/experts_runner.hpp"

namespace millrace::engine {
namespace {

using namespace testing;  // NOLINT(google-build-using-namespace): the fixture of this file

ExpertsSpec small(Router router) {
  ExpertsSpec spec;
  spec.count = 20;
  spec.used = 3;
  spec.width = 40;
  spec.router = router;
  return spec;
}

TEST(ExpertsRouter, EveryKindEqualsFloat64) {
  std::vector<ExpertsSpec> specs;
  for (const Router kind : {Router::softmax, Router::sigmoid, Router::softmax_of_chosen}) {
    ExpertsSpec plain = small(kind), whole = plain;
    whole.normalized = true;
    whole.scale = 2.5f;
    whole.shared_width = 64;
    whole.shared_gate = true;
    ExpertsSpec grouped = whole;
    grouped.selection_bias = true;
    grouped.groups = 4;
    grouped.groups_used = 2;
    ExpertsSpec biased = plain;
    biased.selection_bias = true;
    biased.used = 20;
    specs.insert(specs.end(), {plain, whole, grouped, biased});
  }
  for (const ExpertsSpec& spec : specs) {
    const ExpertsLayer layer({.spec = spec, .width = 72, .biases = spec.shared_gate}, 3);
    const ExpertsStep step(72, 37, 5);
    for (const std::string& family : families()) {
      SCOPED_TRACE(family + ", router " + std::to_string(static_cast<int>(spec.router)) +
                   ", groups " + std::to_string(spec.groups));
      ExpertsRunner runner(layer, family, MathMode::exact);
      ASSERT_NO_FATAL_FAILURE(expect_routed(layer, step, runner.run(step)));
    }
  }
}

struct GateCase {
  Gate gate;
  MathMode math;
  bool whole;  // with all that a spec may have
};

ExpertsCase case_of(const GateCase& of) {
  ExpertsCase out{.spec = small(of.whole ? Router::sigmoid : Router::softmax), .gate = of.gate};
  if (of.math == MathMode::fast) {
    const bool levels = of.gate == Gate::clamped_silu;  // as in gpt-oss
    out.gate_type = out.up_type = out.down_type = levels ? TensorType::mxfp4 : TensorType::q4_1;
    out.spec.width = 64;
  } else {
    out.width = 72;
  }
  if (of.whole) {
    out.spec.selection_bias = out.spec.normalized = out.spec.shared_gate = true;
    out.spec.shared_width = 64;
    out.spec.groups = 4;
    out.spec.groups_used = 2;
    out.biases = out.fused_tensor = true;
    out.lopsided = of.math == MathMode::exact;  // for runs of more than one tile
  }
  return out;
}

class ExpertsTest : public ::testing::TestWithParam<GateCase> {};

TEST_P(ExpertsTest, EqualFloat64AndGiveEachTokenItsBitsInAnyCompany) {
  const ExpertsLayer layer(case_of(GetParam()), 7);
  const MathMode math = GetParam().math;
  const ExpertsStep step(layer.shape.width, 64, 11);
  std::map<Rounding, ExpertsResult> first;
  for (const std::string& family : families()) {
    SCOPED_TRACE(family);
    ExpertsRunner runner(layer, family, math);
    for (const Mode& mode : {Mode{Accumulate::add, 0.5f}, Mode{Accumulate::replace, -0.25f}}) {
      const ExpertsResult got = runner.run(step, 1, mode);
      ASSERT_NO_FATAL_FAILURE(expect_routed(layer, step, got));
      ASSERT_NO_FATAL_FAILURE(expect_rows(layer, step, got, runner.rounding(), mode));
    }
    const ExpertsResult whole = runner.run(step);
    const ExpertsResult& equal = first.emplace(runner.rounding(), whole).first->second;
    ASSERT_EQ(whole.rows, equal.rows);
    ASSERT_EQ(whole.weights, equal.weights);
    ASSERT_EQ(runner.run(step, 1000).rows, whole.rows) << "not sorted";
    for (const std::uint32_t count : {1u, 2u, 5u}) {
      for (std::uint32_t t = 0; t + count <= 64; t += 13) {
        for (const std::uint32_t direct : {0u, 1u}) {
          const ExpertsResult part = runner.run(step.part(t, count), direct);
          const auto beside = std::span(whole.rows).subspan(t * step.stride, part.rows.size());
          ASSERT_TRUE(std::ranges::equal(part.rows, beside)) << t << ", " << count;
        }
      }
    }
  }
}

std::string name_of(const ::testing::TestParamInfo<GateCase>& of) {
  const char* const gate = of.param.gate == Gate::silu   ? "Silu"
                           : of.param.gate == Gate::gelu ? "Gelu"
                                                         : "ClampedSilu";
  return gate + std::string(of.param.math == MathMode::fast ? "Fast" : "Exact");
}

INSTANTIATE_TEST_SUITE_P(Gates, ExpertsTest,
                         ::testing::Values(GateCase{Gate::silu, MathMode::exact, false},
                                           GateCase{Gate::clamped_silu, MathMode::exact, true},
                                           GateCase{Gate::silu, MathMode::fast, true},
                                           GateCase{Gate::gelu, MathMode::fast, false},
                                           GateCase{Gate::clamped_silu, MathMode::fast, true}),
                         name_of);

ExpertsCase fast_case(TensorType up_type = TensorType::q4_1) {
  ExpertsCase out = case_of({Gate::silu, MathMode::fast, false});
  out.up_type = up_type;
  return out;
}

TEST(Experts, GateAndUpOfDifferentFormatsEqualFloat64) {
  const ExpertsLayer layer(fast_case(TensorType::q8_0), 17);
  const ExpertsStep step(96, 9, 18);
  std::map<Rounding, std::vector<float>> rows;
  for (const std::string& family : families()) {
    ExpertsRunner runner(layer, family, MathMode::fast);
    ASSERT_EQ(runner.weights().gate_up.runs.size(), 2u);
    const ExpertsResult got = runner.run(step);
    ASSERT_NO_FATAL_FAILURE(expect_rows(layer, step, got, runner.rounding(), {})) << family;
    EXPECT_EQ(got.rows, rows.emplace(runner.rounding(), got.rows).first->second);
  }
}

// An expert that all tokens chose is cut into chunks of columns, which all groups share.
TEST(Experts, SharedByAllOrNoTokensEqualFloat64) {
  ExpertsCase shape = fast_case();
  shape.spec.count = 4;
  shape.spec.used = 2;
  shape.spec.width = 96;
  shape.width = 2048;
  shape.biases = shape.lopsided = true;
  const ExpertsLayer layer(shape, 19);
  constexpr std::uint32_t tokens = 113;
  const ExpertsStep step(shape.width, tokens, 20);
  std::map<Rounding, std::vector<float>> all;
  for (const std::string& family : families()) {
    ExpertsRunner runner(layer, family, MathMode::fast);
    const ExpertsResult got = runner.run(step);
    EXPECT_EQ(std::ranges::count(got.chosen, 1u), tokens);
    EXPECT_EQ(std::ranges::count(got.chosen, 2u), 0);
    ASSERT_NO_FATAL_FAILURE(expect_rows(layer, step, got, runner.rounding(), {})) << family;
    const auto& rows = all.emplace(runner.rounding(), got.rows).first->second;
    EXPECT_EQ(got.rows, rows);
    // A second launch shows whether the first one has reset its counters.
    EXPECT_EQ(runner.run(step).rows, rows);
  }
}

TEST(Experts, InSeveralBuffersGiveTheSameBits) {
  const ExpertsLayer layer(fast_case(), 21);
  const ExpertsStep step(96, 2, 22);
  for (const std::string& family : families()) {
    ExpertsRunner whole(layer, family, MathMode::fast),
        split(layer, family, MathMode::fast, 32 << 10);
    EXPECT_EQ(whole.weights().gate_up.runs.size(), 1u);
    EXPECT_EQ(split.weights().gate_up.runs.size(), 5u);
    EXPECT_EQ(split.weights().down.runs.size(), 3u);
    EXPECT_EQ(split.run(step).rows, whole.run(step).rows) << family;
  }
}

TEST(ExpertsRouter, EqualLogitsGoToTheLowestId) {
  const ExpertsLayer layer({.spec = small(Router::softmax), .width = 72}, 23);
  ExpertsStep step(72, 2, 24);
  std::ranges::fill(std::span(step.rows).first(step.stride), 0.0f);
  for (const std::string& family : families()) {
    const ExpertsResult got = ExpertsRunner(layer, family, MathMode::exact).run(step);
    EXPECT_EQ(std::vector(got.chosen.begin(), got.chosen.begin() + 3),
              (std::vector<std::uint32_t>{0, 1, 2}));
    EXPECT_FLOAT_EQ(got.weights[0], 0.05f);
  }
}

TEST(ExpertsRouter, WhatIsNotFiniteShowsInItsTokenAlone) {
  ExpertsCase shape{.spec = small(Router::sigmoid), .width = 72};
  shape.spec.groups = 4;
  shape.spec.groups_used = 2;
  for (const Router kind : {Router::softmax, Router::sigmoid, Router::softmax_of_chosen}) {
    shape.spec.router = kind;
    const ExpertsLayer layer(shape, 25);
    const ExpertsStep good(72, 5, 26);
    ExpertsStep bad = good;
    bad.rows[good.stride + 7] = NAN;
    bad.rows[3 * good.stride + 70] = INFINITY;
    for (const std::string& family : families()) {
      ExpertsRunner runner(layer, family, MathMode::exact);
      const ExpertsResult want = runner.run(good), got = runner.run(bad);
      for (std::uint32_t t = 0; t < 5; ++t) {
        const auto ids = std::span(got.chosen).subspan(t * 3, 3);
        for (const std::uint32_t id : ids) {
          EXPECT_LT(id, shape.spec.count);
          EXPECT_EQ(std::ranges::count(ids, id), 1);
        }
        for (std::uint32_t r = 0; r <= 3; ++r) {
          EXPECT_EQ(std::isnan(got.weights[t * 4 + r]), t == 1 || t == 3) << "token " << t;
        }
        for (std::uint32_t i = 0; i < 72; ++i) {
          const std::size_t at = t * good.stride + i;
          if (t == 1 || t == 3) {
            ASSERT_TRUE(std::isnan(got.rows[at])) << "token " << t;
          } else {
            ASSERT_EQ(got.rows[at], want.rows[at]) << "token " << t;
          }
        }
      }
    }
  }
}

// Returns the error of loading the layer by another case's numbers.
std::string refusal(const ExpertsCase& asked, const ExpertsLayer& layer) {
  const auto device = open_device();
  const GgufFile file = layer.file();
  const auto backend = make_backend(Target(*device, one_layer({.head_dim = 32}), MathMode::fast));
  WeightUploads uploads(*backend, file);
  const auto loaded = load_experts(*backend, file, asked.spec, asked.gate, asked.width, 0, uploads);
  if (loaded) return "loaded";
  EXPECT_EQ(loaded.error().code, Code::gguf_malformed);
  EXPECT_FALSE(loaded.error().hint.empty());
  return loaded.error().message;
}

TEST(ExpertWeights, NameWhatIsWrong) {
  const ExpertsCase shape{.spec = small(Router::softmax), .width = 72};
  const ExpertsLayer layer(shape, 27);
  EXPECT_EQ(refusal(shape, layer), "loaded");
  ExpertsCase asked = shape;
  asked.spec.width = 48;
  EXPECT_EQ(
      refusal(asked, layer),
      "experts.gguf: tensor \"blk.0.ffn_down_exps.weight\" is 40 x 72 x 20 where the metadata "
      "asks for 48 x 72 x 20");
  asked = shape;
  asked.spec.selection_bias = true;
  EXPECT_NE(refusal(asked, layer).find("blk.0.exp_probs_b.bias"), std::string::npos);
  asked = shape;
  asked.spec.used = 21;
  EXPECT_EQ(refusal(asked, layer), "experts.gguf: blk.0.ffn uses 21 of 20 experts");
  asked = shape;
  asked.spec.groups = 10;
  asked.spec.groups_used = 1;
  EXPECT_EQ(refusal(asked, layer),
            "experts.gguf: blk.0.ffn chooses 3 of 20 experts from 1 of 10 groups");
}

}  // namespace
}  // namespace millrace::engine
