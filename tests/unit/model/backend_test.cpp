// The contract between a backend and the code above it, with a backend of no family: what it leaves
// out is made, what it has made is not made again, and nothing else asks for the device's family.
#include "engine/core/model/backend/backend.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/model/activations.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/weight_uploads.hpp"
#include "tests/support/device.hpp"
#include "tests/support/one_layer.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using millrace::testing::must;
using millrace::testing::open_device;

// In math fast, every product of this family reads codes. It launches nothing, and says that it has
// written what a test wants. A byte of its panels stands for 32 columns, and is the panel's number.
class FakeBackend final : public Backend {
 public:
  explicit FakeBackend(Target target) : Backend(std::move(target)) {}

  Forms inputs_of(const PanelFormat&, std::uint32_t, MathMode math) const override {
    return {.rows = math == MathMode::exact, .codes = math == MathMode::fast};
  }
  std::uint64_t panel_bytes(const PanelFormat&, std::uint32_t columns) const override {
    return columns / 32;
  }
  void pack(const PanelFormat&, const Tensor&, std::uint32_t panel, std::span<std::byte> out,
            float) const override {
    std::ranges::fill(out, static_cast<std::byte>(panel));
  }
  Status prepare_product(const Projection&, MathMode) override { return {}; }
  Status project(const ProductCall&, MathMode) override { return called("project"); }
  Result<Forms> gated(const GatedCall& call) override {
    MILLRACE_TRY(called("gated"));
    return gates ? call.forms : Forms{};
  }
  Status prepare_attention(const KvCodecs&, std::uint32_t) override { return {}; }
  Status rope_and_store(const AttentionCall&) override { return called("store"); }
  Result<Forms> attend(const AttentionCall&, const Activation&, Forms forms) override {
    MILLRACE_TRY(called("attend"));
    return quantizes ? forms : Forms{.rows = true};
  }
  std::unique_ptr<ExpertProducts> experts(const ExpertsSpec&, Gate) override { return nullptr; }
  Result<JoinedLayers> join(std::span<const LayerProgram>) override { return JoinedLayers{}; }
  std::vector<const Buffer*> counters() const override { return {}; }

  std::vector<std::string> calls;
  bool gates = true, quantizes = true;

 private:
  Status called(const char* what) {
    calls.emplace_back(what);
    return {};
  }
};

// A layer of 32 channels without norms, and its activations for one token.
class BackendContract : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    auto backend = std::make_unique<FakeBackend>(Target(*device_, spec_, MathMode::fast));
    fake_ = backend.get();
    operations_ = std::make_unique<Operations>(std::move(backend));
    for (Projection* each :
         {&weights_.qkv, &weights_.attention_output, &weights_.gate_up, &weights_.down}) {
      *each = {
          .columns = 32, .rows = 96, .first = {0, 32, 64}, .tensors = {}, .runs = {}, .bias = {}};
      each->runs.push_back({.format = {}, .first_row = 0, .panels = 6, .buffer = {}});
    }
    must(operations_->prepare_layer());
    layers_.push_back(compile_layer(
        spec_.layers[0],
        {.weights = weights_, .kv = {pages_}, .rope = rope_, .query_factors = factors_},
        *operations_));
    must(x_.allocate(spec_, layers_, weights_.qkv, *operations_, 1, 1));
    step_.tokens = 1;
  }

  // Launches of the shared code in a run of the layer, the first of which quantizes its input.
  std::uint64_t launches() {
    const std::uint64_t before = device_->launches();
    must(run_layer(*operations_, layers_[0], x_, step_, words_));
    must(device_->finish());
    return device_->launches() - before;
  }

  static ModelSpec spec() {
    ModelSpec out = one_layer({.head_dim = 32});
    out.width = out.layers[0].feed_forward.width = 32;
    return out;
  }

  std::unique_ptr<Device> device_ = open_device({.variant = GetParam()});
  ModelSpec spec_ = spec();
  LayerWeights weights_;
  Buffer pages_, rope_, factors_, words_;
  FakeBackend* fake_ = nullptr;
  std::unique_ptr<Operations> operations_;
  std::vector<LayerProgram> layers_;
  Activations x_;
  StepTable step_;
};

using Calls = std::vector<std::string>;

TEST_P(BackendContract, WhatItHasMadeIsNotMadeAgain) {
  EXPECT_EQ(launches(), 2u) << "a conversion before each sublayer";
  EXPECT_EQ(fake_->calls, (Calls{"project", "store", "attend", "project", "gated", "project"}));
}

TEST_P(BackendContract, WhatItLeavesOutIsMade) {
  fake_->quantizes = false;
  EXPECT_EQ(launches(), 3u) << "codes of the attention's rows";
  fake_->calls.clear();
  fake_->gates = false;
  EXPECT_EQ(launches(), 4u) << "and the gate function";
  EXPECT_EQ(fake_->calls,
            (Calls{"project", "store", "attend", "project", "gated", "project", "project"}));
}

TEST_P(BackendContract, ItChoosesForms) {
  EXPECT_TRUE(std::get<AttendOp>(layers_[0].operations[3]).forms.codes);
  EXPECT_FALSE(operations_->inputs_of(weights_.qkv).rows) << "fp32 matrices, too";
}

TEST_P(BackendContract, WeightsStandAsItPacksThem) {
  const auto parts = std::to_array<MatrixPart>({{"blk.0.attn_k", 32}, {"blk.0.attn_v", 32}});
  const GgufFile file = testing::TinyModel().file();
  WeightUploads uploads(*fake_, file);
  const Projection loaded = must(load_projection(*fake_, file, parts, 64, uploads));
  must(uploads.run());
  ASSERT_EQ(loaded.runs.size(), 1u);
  EXPECT_EQ(testing::download<std::uint8_t>(*device_, loaded.runs[0].buffer, 8),
            (std::vector<std::uint8_t>{0, 0, 1, 1, 0, 0, 1, 1}));
  EXPECT_EQ(loaded.runs[0].buffer.size_bytes(), 8u);
}

INSTANTIATE_TEST_SUITE_P(Families, BackendContract, ::testing::ValuesIn(testing::families()),
                         [](const auto& family) { return family.param; });

TEST(MakeBackend, FollowsTheFamilyOfTheDevice) {
  for (const std::string& family : testing::families()) {
    const auto device = open_device({.variant = family});
    const auto backend = make_backend(Target(*device, one_layer({.head_dim = 32}), MathMode::fast));
    StepTable step{.tokens = 9, .rows = {{.count = 9}}, .attention = {{}}};
    step.words.resize(9);  // tables
    backend->cut_attention(step);
    EXPECT_EQ(step.words.size() == 9, family == "generic") << "the others have units of attention";
    EXPECT_TRUE(backend->counters().empty()) << "before anything is prepared";
  }
}

}  // namespace
}  // namespace millrace::engine
