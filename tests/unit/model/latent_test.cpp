// Layers with multi-head latent attention: both families of devices give the same bits in every
// schedule, in exact and in fast mode, and only keys are stored. tests/families holds the logits to
// those of the official classes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "engine/core/kv/key_means.hpp"
#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using testing::ModelRunner;
using testing::must;
using testing::Random;
using testing::TinyModel;

constexpr std::uint32_t latent_tokens = 300;  // two segments of attention

// 4 heads of 32 + 16 channels, values of 32, latents of 64 and, if any, 96 for queries.
TinyModel latent_model(bool query_latent, TensorType type = TensorType::f32) {
  TinyModel model{.architecture = "deepseek2", .width = 64, .kv_heads = 1, .biases = false};
  model.type = type;
  model.counts = {{"attention.kv_lora_rank", 64},     {"attention.key_length", 80},
                  {"attention.value_length", 64},     {"attention.key_length_mla", 48},
                  {"attention.value_length_mla", 32}, {"rope.dimension_count", 16}};
  model.layer_tensors = {{"attn_kv_a_mqa", {64, 80}},
                         {"attn_kv_a_norm", {64}},
                         {"attn_k_b", {32, 64, 4}},
                         {"attn_v_b", {64, 32, 4}}};
  if (query_latent) {
    model.counts["attention.q_lora_rank"] = 96;
    model.layer_tensors.insert(
        {{"attn_q_a", {64, 96}}, {"attn_q_a_norm", {96}}, {"attn_q_b", {96, 192}}});
  }
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    model.shapes[layer + "attn_q.weight"] = {64, 192};
    model.shapes[layer + "attn_output.weight"] = {128, 64};
    for (const char* name : {"k", "v"}) model.absent.push_back(layer + "attn_" + name + ".weight");
    if (query_latent) model.absent.push_back(layer + "attn_q.weight");
  }
  return model;
}

Tokens latent_prompt() {
  Random random(5);
  Tokens out(latent_tokens);
  for (TokenId& id : out) id = random.below(70);
  return out;
}

ModelOptions latent_options(MathMode math, const std::string& kv = "f16") {
  return {.kv = kv, .kv_bytes = 16 << 20, .step_tokens = 512, .step_outputs = 512, .math = math};
}

ModelRunner::Logits run_latent(const TinyModel& model, const ModelOptions& how,
                               const std::string& variant, std::uint32_t chunk) {
  const GgufFile file = model.file();
  ModelRunner runner(file, how, {.variant = variant});
  runner.set_sequences({latent_prompt()}, 19);
  runner.run(0, chunk);
  return runner.logits(0);
}

TEST(LatentAttention, FamiliesAndSchedulesGiveTheSameBits) {
  for (const bool query_latent : {false, true}) {
    for (const TensorType type : {TensorType::f32, TensorType::q8_0}) {
      for (const MathMode math : {MathMode::exact, MathMode::fast}) {
        SCOPED_TRACE(std::string(query_latent ? "a latent of queries, " : "queries, ") +
                     std::string(traits_of(type).name) + ", " + std::string(math_name(math)));
        const TinyModel model = latent_model(query_latent, type);
        const auto whole = run_latent(model, latent_options(math), "generic", latent_tokens);
        EXPECT_TRUE(run_latent(model, latent_options(math), "generic", 7) == whole);
        if (!testing::has_cpu_family()) continue;
        EXPECT_TRUE(run_latent(model, latent_options(math), "cpu", latent_tokens) == whole);
        EXPECT_TRUE(run_latent(model, latent_options(math), "cpu", 7) == whole);
        EXPECT_TRUE(run_latent(model, latent_options(math), "cpu", 1) == whole);
      }
    }
  }
}

TEST(LatentAttention, FastIsCloseToExact) {
  const TinyModel model = latent_model(true, TensorType::q8_0);
  const auto exact = run_latent(model, latent_options(MathMode::exact), "generic", latent_tokens);
  const auto fast = run_latent(model, latent_options(MathMode::fast), "generic", latent_tokens);
  double off = 0, size = 0;
  for (std::size_t t = 0; t < latent_tokens; ++t) {
    for (std::size_t i = 0; i < exact[t].size(); ++i) {
      const double difference = static_cast<double>(fast[t][i]) - static_cast<double>(exact[t][i]);
      off += difference * difference;
      size += static_cast<double>(exact[t][i]) * static_cast<double>(exact[t][i]);
    }
  }
  EXPECT_GT(off, 0);
  EXPECT_LT(std::sqrt(off / size), 0.03);
}

TEST(LatentAttention, OnlyKeysAreStored) {
  const GgufFile file = latent_model(true).file();
  ModelRunner runner(file, latent_options(MathMode::exact));
  const ModelInfo& info = runner.model().info();
  EXPECT_EQ(info.kv, "f16/key x2");
  EXPECT_EQ(info.kv_token_bytes, 2.0 * 80 * 2);
  EXPECT_EQ(info.page_bytes, 16u * 80 * 2 * 2);
  EXPECT_EQ(info.page_count, (16u << 20) / info.page_bytes);
  EXPECT_EQ(info.kv_compression, 1.0);
  // Some families also say how products run.
  const std::string reason = info.layer_path.reason.substr(0, info.layer_path.reason.find(';'));
  EXPECT_EQ(reason, testing::has_cpu_family()
                        ? "latent attention runs in parts"
                        : "whole layers need a CPU device that shares the host's memory");
  for (const char* line : {"latents    = normed x attn_q_a, attn_kv_a_mqa [64 -> 176, F32]",
                           "queries    = query_latent x attn_q_b [96 -> 192, F32]",
                           "attn_k_b of each head [32 -> 64, F32]",
                           "attended   = summed x attn_v_b of each head [64 -> 32, F32]",
                           "whose latents are the values"}) {
    EXPECT_NE(info.program.find(line), std::string::npos) << line << "\n" << info.program;
  }
}

Error error_of(const TinyModel& model, const ModelOptions& how) {
  const GgufFile file = model.file();
  const auto device = testing::open_device();
  const auto loaded = Model::load(*device, file, how);
  return loaded ? Error{} : loaded.error();
}

TEST(LatentAttention, CodesAndMeanKeysAreRefused) {
  const Error codes = error_of(latent_model(true), latent_options(MathMode::exact, "q8"));
  EXPECT_EQ(codes.code, Code::unsupported_field);
  EXPECT_NE(codes.message.find("one codec stores both"), std::string::npos) << codes.text();
  ModelOptions centered = latent_options(MathMode::exact);
  centered.key_means.emplace();
  const Error means = error_of(latent_model(true), centered);
  EXPECT_EQ(means.code, Code::unsupported_field);
  EXPECT_NE(means.message.find("cannot be centered"), std::string::npos) << means.text();
}

TEST(LatentAttention, MatricesOfHeadsOfOtherShapesAreRefused) {
  TinyModel model = latent_model(true);
  model.shapes["blk.1.attn_k_b.weight"] = {64, 32, 4};  // not transposed
  const Error transposed = error_of(model, latent_options(MathMode::exact));
  EXPECT_EQ(transposed.code, Code::gguf_malformed);
  EXPECT_NE(transposed.message.find("blk.1.attn_k_b.weight"), std::string::npos)
      << transposed.text();
  model = latent_model(true);
  model.shapes["blk.0.attn_v_b.weight"] = {64, 32, 3};  // of a head too few
  EXPECT_NE(error_of(model, latent_options(MathMode::exact)).message.find("blk.0.attn_v_b.weight"),
            std::string::npos);
}

}  // namespace
}  // namespace millrace::engine
