// The whole forward pass on tiny random models, compared with float64, between the variants, and
// between different cuts into steps.
#include "engine/core/model/model.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>

#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/model/truth.hpp"

namespace millrace::engine {
namespace {

using testing::ModelRunner;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::TinyModel;
using testing::Truth;

Tokens random_tokens(std::size_t count, std::uint64_t seed, std::uint32_t vocabulary = 70) {
  Random random(seed);
  Tokens out(count);
  for (TokenId& id : out) id = random.below(vocabulary);
  return out;
}

const ModelOptions small{
    .kv_bytes = 4 << 20, .step_tokens = 300, .step_outputs = 300, .math = MathMode::exact};

ModelOptions small_in(MathMode math) {
  ModelOptions options = small;
  options.math = math;
  return options;
}

// Tests for both math modes.
class BothModes : public ::testing::TestWithParam<MathMode> {};
INSTANTIATE_TEST_SUITE_P(Model, BothModes, ::testing::Values(MathMode::exact, MathMode::fast),
                         [](const auto& math) { return std::string(math_name(math.param)); });

const TinyModel mixed{.type = TensorType::q8_0,
                      .types = {{"blk.0.attn_k.weight", TensorType::f16},
                                {"blk.1.attn_v.weight", TensorType::bf16},
                                {"blk.0.ffn_up.weight", TensorType::q4_0},
                                {"blk.1.ffn_down.weight", TensorType::q4_1},
                                {"output.weight", TensorType::f16},
                                {"blk.1.attn_output.weight", TensorType::f32}}};

// Each of the three changes the logits after 40 tokens.
constexpr AttentionShape shaped{.window = 11, .soft_cap = 0.2f, .sinks = true};

// Returns the largest difference from float64, in units of a token's largest logit, but at least 1.
template <class Row>
double distance(const ModelRunner::Logits& got, const std::vector<Row>& want) {
  double worst = 0;
  for (std::size_t t = 0; t < want.size(); ++t) {
    double size = 1;
    for (const double z : want[t]) size = std::max(size, std::fabs(z));
    for (std::size_t v = 0; v < want[t].size(); ++v) {
      worst = std::max(
          worst,
          std::fabs(static_cast<double>(got[t][v]) - static_cast<double>(want[t][v])) / size);
    }
  }
  return worst;
}

TEST(Model, EqualsFloat64) {
  for (const TinyModel& model :
       {mixed, TinyModel{.tied = true, .biases = false, .attention = shaped},
        TinyModel{.architecture = "qwen2"}}) {
    const GgufFile file = model.file();
    const Tokens tokens = random_tokens(40, 1);
    const auto want = Truth(file).logits(tokens);
    const auto distance_with = [&](const char* kv) {
      ModelOptions options = small;
      options.kv = kv;
      ModelRunner runner(file, options);
      runner.set_sequences({tokens}, 3);
      runner.run(0, 40);
      return distance(runner.logits(0), want);
    };
    EXPECT_LT(distance_with("f16"), 2e-3);
    // Measured: 4e-5 to 2e-4 with f16, 7e-8 to 3e-7 with f32, where fp32 sums alone round.
    EXPECT_LT(distance_with("f32"), 2e-6);
  }
}

// Families whose codes are others' are only near.
TEST_P(BothModes, FamiliesGiveTheSameBits) {
  const GgufFile file = mixed.file();
  std::vector<std::string> variants = testing::families();
  const Dot best = open_device({.variant = variants.back()})->dot();
  for (const Dot dot : all_dots) {
    const bool counts = GetParam() == MathMode::fast && dot <= best && processor_has(dot);
    if (counts) variants.push_back("cpu-" + std::string(dot_name(dot)));
  }
  std::vector<ModelRunner::Logits> logits;
  for (const std::string& variant : variants) {
    ModelRunner runner(file, small_in(GetParam()), {.variant = variant});
    runner.set_sequences({random_tokens(270, 2)}, 17);
    for (std::uint32_t at = 0; at < 100; at += 50) runner.step({{0, at, 50}});
    for (std::uint32_t at = 100; at < 120; ++at) runner.step({{0, at, 1}});
    for (std::uint32_t at = 120; at < 270; at += 3) runner.step({{0, at, 3}});
    logits.push_back(runner.logits(0));
    if (GetParam() == MathMode::fast && testing::codes_are_halves(variant)) {
      EXPECT_NE(logits.back(), logits[0]) << variant;
      EXPECT_LT(distance(logits.back(), logits[0]), 0.05) << variant;
    } else {
      EXPECT_EQ(logits.back(), logits[0]) << variant;
    }
  }
}

TEST_P(BothModes, WeightsInManySmallBuffersGiveTheSameBits) {
  const GgufFile file = mixed.file();
  std::vector<ModelRunner::Logits> logits;
  for (const std::uint64_t limit : {std::uint64_t{0}, std::uint64_t{90'000}}) {
    ModelRunner runner(
        file, {.kv_bytes = 1 << 20, .step_tokens = 20, .step_outputs = 20, .math = GetParam()},
        {.max_allocation_bytes = limit});
    runner.set_sequences({random_tokens(20, 3)}, 2);
    runner.run(0, 20);
    logits.push_back(runner.logits(0));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

// Programs may be built on other threads while weights are packed.
TEST_P(BothModes, AnnouncedProgramsGiveTheSameBits) {
  const GgufFile file = mixed.file();
  const Tokens tokens = random_tokens(20, 8);
  ModelOptions options = small_in(GetParam());
  options.whole_layers = false;
  for (const std::string& family : testing::families()) {
    ModelRunner::Logits want;
    for (const std::uint32_t threads : {1u, 4u}) {
      ModelRunner runner(file, options, {.variant = family, .build_threads = threads});
      runner.set_sequences({tokens}, 2);
      runner.run(0, 20);
      if (threads == 1) want = runner.logits(0);
      EXPECT_EQ(runner.logits(0), want) << family;
    }
  }
}

TEST_P(BothModes, PrefillEqualsSingleSteps) {
  const GgufFile file = mixed.file();
  ModelRunner runner(file, small_in(GetParam()));
  const Tokens tokens = random_tokens(270, 4);
  runner.set_sequences({tokens, tokens, tokens, tokens}, 17);
  runner.run(0, 1);
  runner.run(1, 270);
  runner.run(2, 16);
  runner.run(3, 7);
  for (const std::uint32_t other : {1u, 2u, 3u}) {
    for (std::size_t t = 0; t < tokens.size(); ++t) {
      ASSERT_EQ(runner.logits(other)[t], runner.logits(0)[t]) << "token " << t;
    }
  }
}

TEST(Model, IdsFromTheDeviceAreTheSameAsFromTheHost) {
  ModelRunner runner(mixed.file(), small);
  runner.set_sequences({random_tokens(2, 5)}, 1);
  runner.step({{0, 0, 2}});
  const Tokens tokens = random_tokens(2, 5);
  const Buffer ids = testing::upload(runner.device(), Tokens{0, 0, tokens[1]});
  StepPlan plan;
  plan.pages = {0};
  plan.outputs = {{0, OutputKind::logits}};
  plan.rows = {
      {.first_position = 1, .count = 1, .device_slot = 2, .page_count = 1, .output_count = 1}};
  must(runner.model().forward(plan, ids));
  const auto row = testing::download<float>(runner.device(), runner.model().logits(), 70);
  EXPECT_EQ(row, runner.logits(0)[1]);
}

TEST(Model, ACopiedPageServesAsTheOriginal) {
  ModelRunner runner(mixed.file(), small);
  const Tokens tokens = random_tokens(20, 6);
  runner.set_sequences({tokens}, 2);
  runner.run(0, 20);
  must(runner.model().copy_page({1, 9}));  // the runner assigns pages from the last to the first
  must(runner.model().copy_page({0, 8}));
  StepPlan plan;
  plan.tokens = {tokens[19]};
  plan.pages = {9, 8};
  plan.outputs = {{0, OutputKind::logits}};
  plan.rows = {{.first_position = 19, .count = 1, .page_count = 2, .output_count = 1}};
  must(runner.model().forward(plan, {}));
  EXPECT_EQ(testing::download<float>(runner.device(), runner.model().logits(), 70),
            runner.logits(0)[19]);
  EXPECT_FALSE(runner.model().copy_page({0, 100000}).has_value());
}

TEST(Model, DamagedModelsAreRefusedWithTheTensorsName) {
  const auto device = open_device();
  const auto error_of = [&](const TinyModel& model, const ModelOptions& options = small) {
    const GgufFile file = model.file();
    const auto loaded = Model::load(*device, file, options);
    return loaded ? Error{} : loaded.error();
  };
  for (const char* name : {"output_norm.weight", "blk.1.attn_v.weight", "blk.0.ffn_norm.weight"}) {
    const Error error = error_of({.absent = {name}});
    EXPECT_EQ(error.code, Code::gguf_malformed);
    EXPECT_NE(error.message.find(name), std::string::npos) << error.text();
  }
  for (const char* name : {"blk.0.attn_q.weight", "blk.1.ffn_down.weight", "output.weight"}) {
    const Error error = error_of({.shapes = {{name, {32, 2}}}});
    EXPECT_EQ(error.code, Code::gguf_malformed);
    EXPECT_NE(error.message.find(name), std::string::npos) << error.text();
    EXPECT_NE(error.message.find("32 x 2"), std::string::npos) << error.text();
  }
  const Error bias = error_of({.shapes = {{"blk.0.attn_q.bias", {3}}}});
  EXPECT_NE(bias.message.find("blk.0.attn_q.bias"), std::string::npos) << bias.text();
}

TEST(Model, NumbersThatAreNotFiniteAreRefusedWithTheirRow) {
  const auto device = open_device();
  struct Case {
    TensorType type;
    std::size_t at;          // offset in row 2, in bytes
    std::uint32_t infinity;  // the value written there, `size` bytes
    std::size_t size;
  };
  for (const Case& c :
       {Case{TensorType::f32, 63 * 4, 0xff800000, 4}, Case{TensorType::f16, 63 * 2, 0x7c00, 2},
        Case{TensorType::bf16, 63 * 2, 0x7fc0, 2}, Case{TensorType::q8_0, 34, 0xfc00, 2},
        Case{TensorType::q4_0, 18, 0x7e00, 2}, Case{TensorType::q4_1, 22, 0x7c00, 2}}) {
    const auto& traits = traits_of(c.type);
    const std::size_t row_bytes = 64 / traits.block_elements * traits.block_bytes;
    std::vector<std::byte> data(row_bytes * 64);
    std::memcpy(&data[2 * row_bytes + c.at], &c.infinity, c.size);
    auto builder = TinyModel{.absent = {"blk.1.attn_q.weight"}}.builder();
    builder.tensor("blk.1.attn_q.weight", {64, 64}, static_cast<std::uint32_t>(c.type), data);
    const GgufFile file = TinyModel::file(builder);
    const auto loaded = Model::load(*device, file, small);
    ASSERT_FALSE(loaded) << traits.name;
    EXPECT_EQ(loaded.error().code, Code::gguf_malformed);
    EXPECT_NE(loaded.error().message.find("\"blk.1.attn_q.weight\", row 2,"), std::string::npos)
        << loaded.error().text();
  }
}

// A file may claim any context; allocations depend on the KV pool.
TEST(Model, AHugeContextCostsNoMoreThanThePoolHolds) {
  TinyModel huge = mixed;
  huge.context = 1u << 24;
  std::vector<ModelRunner::Logits> logits;
  for (const TinyModel& model : {mixed, huge}) {
    ModelRunner runner(model.file(), {.kv_bytes = 1 << 20, .step_tokens = 20, .step_outputs = 20},
                       {.max_allocation_bytes = 1 << 20});
    runner.set_sequences({random_tokens(20, 3)}, 2);
    runner.run(0, 20);
    logits.push_back(runner.logits(0));
  }
  EXPECT_EQ(logits[0], logits[1]);
}

TEST(Model, ImpossibleOptionsAreRefused) {
  const auto device = open_device();
  const GgufFile file = mixed.file();
  const auto code_of = [&](const ModelOptions& options) {
    const auto loaded = Model::load(*device, file, options);
    return loaded ? Code::internal : loaded.error().code;
  };
  EXPECT_EQ(code_of({.kv_bytes = 100}), Code::kv_exceeded);
  EXPECT_EQ(code_of({.kv_bytes = 1ull << 60}), Code::out_of_memory);
  EXPECT_EQ(code_of({.kv = "q3"}), Code::invalid_value);
  EXPECT_EQ(code_of({.kv = "f16/x"}), Code::invalid_value);
  EXPECT_EQ(code_of({.step_tokens = 0}), Code::invalid_value);
  // Each hint names the option that needs less memory.
  const auto hint_of = [&](const ModelOptions& options) {
    const auto loaded = Model::load(*device, file, options);
    return loaded ? "" : loaded.error().hint;
  };
  EXPECT_EQ(hint_of({.kv_bytes = 1ull << 60}), "lower --kv-memory");
  EXPECT_EQ(hint_of({.step_tokens = 4'000'000'000}), "lower --step-tokens");
}

TEST(Model, TheFingerprintFollowsTheModel) {
  const auto device = open_device();
  const auto fingerprint = [&](const TinyModel& model) {
    const GgufFile file = model.file();
    return must(Model::load(*device, file, small))->info().fingerprint;
  };
  const std::string one = fingerprint(mixed);
  EXPECT_EQ(one.size(), 32u);
  EXPECT_EQ(fingerprint(mixed), one);
  TinyModel other = mixed;
  other.seed = 2;
  EXPECT_NE(fingerprint(other), one);
  const GgufFile file = mixed.file();
  EXPECT_NE(must(Model::load(*device, file, small_in(MathMode::fast)))->info().fingerprint, one);
}

// The fast mode rounds activations to eight bits and loses no more than that.
TEST(Model, FastIsCloseToExact) {
  const GgufFile file = mixed.file();
  const Tokens tokens = random_tokens(40, 1);
  std::vector<ModelRunner::Logits> logits;
  for (const MathMode math : {MathMode::exact, MathMode::fast}) {
    ModelRunner runner(file, small_in(math));
    runner.set_sequences({tokens}, 3);
    runner.run(0, 40);
    logits.push_back(runner.logits(0));
  }
  EXPECT_NE(logits[0], logits[1]);
  for (std::size_t t = 0; t < tokens.size(); ++t) {
    double error = 0, size = 0;
    for (std::size_t v = 0; v < logits[0][t].size(); ++v) {
      const double exact = logits[0][t][v], difference = logits[1][t][v] - exact;
      error += difference * difference;
      size += exact * exact;
    }
    EXPECT_LT(std::sqrt(error / size), 0.03) << "token " << t;
  }
}

TEST_P(BothModes, RowsAmongOthersGiveTheSameBits) {
  ModelRunner runner(
      mixed.file(),
      {.kv_bytes = 16 << 20, .step_tokens = 600, .step_outputs = 600, .math = GetParam()});
  std::vector<Tokens> sequences;
  for (std::uint32_t s = 0; s < 33; ++s) sequences.push_back(random_tokens(30, s == 32 ? 0 : s));
  runner.set_sequences(sequences, 2);
  runner.run(32, 30);  // the tokens of sequence 0, alone
  // Then all others together, cut differently, and joining at different steps.
  for (std::uint32_t at = 0; at < 30 + 32; ++at) {
    std::vector<ModelRunner::Part> parts;
    for (std::uint32_t s = 0; s < 32; ++s) {
      const std::uint32_t chunk = s % 3 + 1, from = (at - s) * chunk;
      if (at >= s && from < 30) parts.push_back({s, from, std::min(chunk, 30 - from)});
    }
    if (!parts.empty()) runner.step(parts);
  }
  EXPECT_EQ(runner.logits(0), runner.logits(32));
}

}  // namespace
}  // namespace millrace::engine
