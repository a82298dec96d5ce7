#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <span>
#include <string_view>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/families/rotary.hpp"
#include "engine/core/model/fingerprint.hpp"
#include "schemas/base/hash.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using testing::GgufBuilder;
using testing::must;
using testing::TinyModel;

TEST(Spec, IsReadFromMetadataAndTensors) {
  const ModelSpec spec = must(read_spec(TinyModel{}.file()));
  EXPECT_EQ(spec.architecture, "llama");
  EXPECT_EQ(spec.name, "tiny");
  EXPECT_EQ(spec.layer_count(), 2u);
  EXPECT_EQ(spec.width, 64u);
  EXPECT_EQ(spec.layers[1].feed_forward.width, 96u);
  EXPECT_EQ(spec.vocabulary, 70u);
  EXPECT_EQ(spec.context_tokens, 1024u);
  EXPECT_EQ(spec.attention().heads, 4u);
  EXPECT_EQ(spec.attention().kv_heads, 2u);
  EXPECT_EQ(spec.attention().head_dim, 16u);
  EXPECT_EQ(spec.attention().rope.dim, 16u);
  EXPECT_EQ(spec.attention().rope.base, 10000.0);
  EXPECT_FALSE(spec.tied_output);
  EXPECT_TRUE(must(read_spec(TinyModel{.tied = true}.file())).tied_output);
}

TEST(Spec, Qwen2HasKeysOfItsOwnAndRotatesHalves) {
  GgufBuilder builder = TinyModel{.architecture = "qwen2"}.builder();
  builder.f32("qwen2.rope.freq_base", 1000000.0f).f32("llama.rope.freq_base", 5.0f);
  const ModelSpec spec = must(read_spec(TinyModel::file(builder)));
  EXPECT_EQ(spec.architecture, "qwen2");
  EXPECT_EQ(spec.layer_count(), 2u);
  EXPECT_EQ(spec.attention().rope.base, 1000000.0);
  EXPECT_EQ(spec.attention().rope.kind, RopeKind::halves);
  EXPECT_EQ(must(read_spec(TinyModel{}.file())).attention().rope.kind, RopeKind::pairs);
  builder.tensor("blk.0.attn_q_norm.weight", {16}, 0, std::vector<std::byte>(64));
  const auto other = read_spec(TinyModel::file(builder));
  ASSERT_FALSE(other);
  EXPECT_NE(other.error().message.find("no qwen2 model"), std::string::npos);
}

TEST(Spec, WhatItCannotRunIsRefusedByName) {
  struct Case {
    std::string part;  // a part of the message
    std::function<void(GgufBuilder&)> change;
  };
  const std::vector<Case> cases{
      {"llama.attention.sliding_window = 512",
       [](GgufBuilder& b) {
         b.u32("llama.attention.sliding_window", 512);
         b.u32("llama.attention.sliding_window_pattern", 4);
       }},
      {"llama.attention.causal",
       [](GgufBuilder& b) { b.boolean("llama.attention.causal", false); }},
      {"llama.logit_scale", [](GgufBuilder& b) { b.f32("llama.logit_scale", 0.5f); }},
      {"llama.attention.scale", [](GgufBuilder& b) { b.f32("llama.attention.scale", 1.0f); }},
      {"llama.attention.clamp_kqv",
       [](GgufBuilder& b) { b.f32("llama.attention.clamp_kqv", 1.0f); }},
      {"llama.final_logit_softcapping",
       [](GgufBuilder& b) { b.f32("llama.final_logit_softcapping", 1.0f); }},
      {"heads of 24", [](GgufBuilder& b) { b.u32("llama.attention.key_length", 24); }},
      {"blk.0.attn_q_norm.weight",
       [](GgufBuilder& b) {
         b.tensor("blk.0.attn_q_norm.weight", {16}, 0, std::vector<std::byte>(64));
       }},
      {"blk.2.attn_norm.weight",
       [](GgufBuilder& b) {
         b.tensor("blk.2.attn_norm.weight", {64}, 0, std::vector<std::byte>(256));
       }},
  };
  for (const Case& one : cases) {
    GgufBuilder builder = TinyModel{}.builder();
    one.change(builder);
    const auto spec = read_spec(TinyModel::file(builder));
    ASSERT_FALSE(spec.has_value()) << one.part;
    EXPECT_EQ(spec.error().code, Code::unsupported_architecture) << spec.error().text();
    EXPECT_NE(spec.error().message.find(one.part), std::string::npos) << spec.error().text();
    EXPECT_NE(spec.error().message.find("tiny.gguf"), std::string::npos);
    EXPECT_FALSE(spec.error().hint.empty());
  }
}

TEST(Spec, WindowsSoftCapsAndSinksAreReadAndPartOfTheFingerprint) {
  const auto none = must(read_spec(TinyModel{}.file())).attention();
  EXPECT_TRUE(none.window == 0 && none.soft_cap == 0.0f && !none.sinks);
  const TinyModel model{.attention = {.window = 300, .soft_cap = 50.0f, .sinks = true}};
  const auto shape = must(read_spec(model.file())).attention();
  EXPECT_TRUE(shape.window == 300 && shape.soft_cap == 50.0f && shape.sinks);
  const TinyModel wide{.attention = {.window = 1024}};  // the window covers the whole context
  EXPECT_EQ(must(read_spec(wide.file())).attention().window, 0u);
  const TinyModel other{.attention = {.window = 301, .soft_cap = 50.0f, .sinks = true}};
  EXPECT_NE(numeric_fingerprint(model.file(), "f16", MathMode::fast, {}),
            numeric_fingerprint(other.file(), "f16", MathMode::fast, {}));
}

// No key says which layers have the window; only the model's own code does.
TEST(Spec, AWindowOfSomeOfQwensLayersIsRefused) {
  const auto spec =
      read_spec(TinyModel{.architecture = "qwen2", .attention = {.window = 300}}.file());
  ASSERT_FALSE(spec);
  EXPECT_EQ(spec.error().code, Code::unsupported_architecture);
  EXPECT_NE(spec.error().message.find("qwen2.attention.sliding_window = 300"), std::string::npos);
}

TEST(Spec, ASoftCapThatCannotBeIsRefused) {
  for (const float cap : {-1.0f, 1e-9f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    GgufBuilder builder = TinyModel{}.builder();
    builder.f32("llama.attn_logit_softcapping", cap);
    const auto spec = read_spec(TinyModel::file(builder));
    ASSERT_FALSE(spec) << cap;
    EXPECT_EQ(spec.error().code, Code::gguf_malformed);
    EXPECT_NE(spec.error().message.find("attn_logit_softcapping"), std::string::npos);
  }
}

TEST(Spec, FactorsThatDoNothingPass) {
  GgufBuilder builder = TinyModel{}.builder();
  builder.f32("llama.logit_scale", 1.0f).f32("llama.residual_scale", 0.0f);
  builder.f32("llama.attention.scale", 0.25f);  // 1 / sqrt(16)
  builder.f32("llama.attention.clamp_kqv", 0.0f);
  EXPECT_TRUE(read_spec(TinyModel::file(builder)));
}

TEST(Spec, ARotaryFactorCountsWithAndWithoutItsKind) {
  const auto factor = [](const std::function<void(GgufBuilder&)>& change) {
    GgufBuilder builder = TinyModel{}.builder();
    change(builder);
    return must(read_spec(TinyModel::file(builder))).attention().rope.linear_factor;
  };
  const auto kind = [](GgufBuilder& b, const char* name) {
    b.string("llama.rope.scaling.type", name);
  };
  EXPECT_EQ(factor([](GgufBuilder&) {}), 1.0);
  EXPECT_EQ(factor([](GgufBuilder& b) { b.f32("llama.rope.scaling.factor", 4.0f); }), 4.0);
  EXPECT_EQ(factor([](GgufBuilder& b) { b.f32("llama.rope.scale_linear", 2.0f); }), 2.0);
  EXPECT_EQ(factor([](GgufBuilder& b) { b.f32("llama.rope.scaling.factor", 0.0f); }), 1.0);
  EXPECT_EQ(factor([&](GgufBuilder& b) {
              kind(b, "linear");
              b.f32("llama.rope.scaling.factor", 4.0f);
            }),
            4.0);
  EXPECT_EQ(factor([&](GgufBuilder& b) {
              kind(b, "none");
              b.f32("llama.rope.scaling.factor", 4.0f);
            }),
            1.0);
}

TEST(Spec, AnotherArchitectureIsNamed) {
  GgufBuilder builder;
  builder.string("general.architecture", "mamba2");
  const auto spec = read_spec(TinyModel::file(builder));
  ASSERT_FALSE(spec.has_value());
  EXPECT_EQ(spec.error().code, Code::unsupported_architecture);
  EXPECT_NE(spec.error().message.find("\"mamba2\""), std::string::npos);
}

TEST(Spec, ImpossibleSizesAreRefused) {
  const auto refused = [](const GgufBuilder& builder) {
    const auto spec = read_spec(TinyModel::file(builder));
    return !spec && spec.error().code == Code::gguf_malformed && !spec.error().hint.empty();
  };
  EXPECT_TRUE(refused(TinyModel{.kv_heads = 3}.builder()));
  EXPECT_TRUE(refused(TinyModel{.context = 0}.builder()));
  EXPECT_TRUE(refused(TinyModel{.context = 0xffffffff}.builder()));
  GgufBuilder builder = TinyModel{}.builder();
  builder.u32("llama.rope.dimension_count", 15);
  EXPECT_TRUE(refused(builder));
  builder = TinyModel{}.builder();
  builder.tensor("rope_freqs.weight", {7}, 0, std::vector<std::byte>(28));
  EXPECT_TRUE(refused(builder));
}

// Expects floats next to the truth almost always, and never more than one float away.
void expect_near_truth(const std::vector<float>& table, const RopeSpec& rope,
                       std::uint32_t position) {
  const std::uint32_t half = rope.dim / 2;
  for (std::uint32_t i = 0; i < half; ++i) {
    const double angle = position * std::pow(rope.base, -2.0 * i / rope.dim);
    const std::size_t at = (std::size_t{position} * half + i) * 2;
    EXPECT_NEAR(table[at], std::cos(angle), 6e-8) << position << ", " << i;
    EXPECT_NEAR(table[at + 1], std::sin(angle), 6e-8) << position << ", " << i;
  }
}

TEST(Spec, RotaryTable) {
  RopeSpec rope = must(read_spec(TinyModel{}.file())).attention().rope;
  const auto table = rope_table(rope, 100);
  ASSERT_EQ(table.size(), 100u * 16);
  for (std::uint32_t position = 0; position < 100; ++position) {
    expect_near_truth(table, rope, position);
  }
  rope.linear_factor = 2.0;
  EXPECT_EQ(rope_table(rope, 100)[98 * 16], table[49 * 16]);
  rope.linear_factor = 1.0;
  rope.divisors = std::vector<float>(8, 4.0f);
  EXPECT_EQ(rope_table(rope, 100)[96 * 16], table[24 * 16]);
}

// The hash of many angles, near and far. Another hash means other bits on this machine.
TEST(Spec, TheRotaryTableIsTheSameOnEveryMachine) {
  RopeSpec rope{.dim = 64, .base = 500000.0};
  const auto table = rope_table(rope, 1u << 17);
  for (std::uint32_t position = 0; position < 1u << 17; position += 4099) {
    expect_near_truth(table, rope, position);
  }
  const auto bytes = std::as_bytes(std::span(table));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  EXPECT_EQ(hash128(text).hex(), "02c8338f4174212c5dc127d1d576cf33");
}

TEST(Spec, RotaryNumbersThatCannotBeAreRefused) {
  const auto refused = [](const std::function<void(GgufBuilder&)>& change) {
    GgufBuilder builder = TinyModel{}.builder();
    change(builder);
    const auto spec = read_spec(TinyModel::file(builder));
    return !spec && spec.error().code == Code::gguf_malformed && !spec.error().hint.empty();
  };
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float base : {0.0f, -1.0f, 0.5f, infinity, std::nanf("")}) {
    EXPECT_TRUE(refused([&](GgufBuilder& b) { b.f32("llama.rope.freq_base", base); })) << base;
  }
  for (const float factor : {-1.0f, 1e-9f, infinity, std::nanf("")}) {
    EXPECT_TRUE(refused([&](GgufBuilder& b) { b.f32("llama.rope.scaling.factor", factor); }));
    EXPECT_TRUE(refused([&](GgufBuilder& b) {
      std::vector<std::byte> data;
      for (int i = 0; i < 8; ++i) GgufBuilder::append(data, i == 5 ? factor : 1.0f);
      b.tensor("rope_freqs.weight", {8}, 0, data);
    }));
  }
}

}  // namespace
}  // namespace millrace::engine
