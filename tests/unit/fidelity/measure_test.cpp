// Tests contexts, reference files, and the whole measurement on a tiny model.
#include "engine/core/fidelity/measure.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/core/families/read_spec.hpp"
#include "engine/core/fidelity/calibrate.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/model/fingerprint.hpp"
#include "engine/core/model/key_probe.hpp"
#include "tests/support/model_runner.hpp"
#include "tests/support/tiny_model.hpp"
#include "tests/unit/client/temporary_folder.hpp"

namespace millrace::engine {
namespace {

using testing::must;

Tokens some_tokens(std::size_t count, std::uint32_t vocabulary) {
  testing::Random random(9);
  Tokens out;
  for (std::size_t i = 0; i < count; ++i) out.push_back(random.below(vocabulary));
  return out;
}

TEST(Contexts, AreCutWithTheirPrefixAndTheRestIsLeft) {
  const Tokens text{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
  const FidelityContexts plain = must(cut_contexts(text, {.size = 5}, 12));
  EXPECT_EQ(plain.tokens, (Tokens{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_EQ(plain.count(), 2u);
  EXPECT_EQ(plain.first, 2u);
  EXPECT_EQ(plain.scored_each(), 2u);  // positions 2 and 3, which predict 3 and 4
  const FidelityContexts led =
      must(cut_contexts(text, {.size = 5, .most = 1, .all_scored = true, .prefix = {0}}, 12));
  EXPECT_EQ(led.tokens, (Tokens{0, 1, 2, 3, 4}));
  EXPECT_EQ(led.positions(), 4u);
}

TEST(Contexts, RefuseWhatCannotBeScored) {
  const auto refused = [](std::size_t count, const CutOptions& options, std::uint32_t vocabulary) {
    const auto cut = cut_contexts(some_tokens(count, 10), options, vocabulary);
    return cut ? Error{} : cut.error();
  };
  const Error few = refused(7, {.size = 8}, 10);
  EXPECT_EQ(few.code, Code::invalid_value);
  EXPECT_NE(few.message.find("7 tokens, too few for one context of 8"), std::string::npos);
  EXPECT_EQ(refused(20, {.size = 3}, 10).code, Code::invalid_value);
  EXPECT_EQ(refused(20, {.size = 4, .prefix = {1, 2, 3, 4}}, 10).code, Code::invalid_value);
  EXPECT_EQ(refused(20, {.size = 8}, 2).code, Code::invalid_token);
}

// Writes a file of rows in a folder of its own.
class ReferenceFile : public ::testing::Test {
 protected:
  std::string write(std::int32_t rows, std::int32_t vocabulary, const std::vector<float>& values,
                    const char* magic = "MLOGITS1") const {
    std::string content(magic);
    content.append(reinterpret_cast<const char*>(&rows), 4);
    content.append(reinterpret_cast<const char*>(&vocabulary), 4);
    content.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    return folder_.write("logits", content);
  }
  Code refused(const std::string& path) const {
    const auto file = LogitsFile::open(*env_, path);
    return file ? Code::interrupted : file.error().code;
  }

  std::unique_ptr<Env> env_ = posix_env();
  client::TemporaryFolder folder_;
};

TEST_F(ReferenceFile, GivesItsRows) {
  LogitsFile file = must(LogitsFile::open(*env_, write(2, 3, {1, 2, 3, 4, 5, 6})));
  EXPECT_EQ(file.rows(), 2u);
  EXPECT_EQ(file.vocabulary(), 3u);
  std::vector<float> row(3);
  must(file.read(1, row));
  EXPECT_EQ(row, (std::vector<float>{4, 5, 6}));
  EXPECT_EQ(file.read(2, row).error().code, Code::io_error);
}

TEST_F(ReferenceFile, OfAnotherKindOrSizeIsRefused) {
  EXPECT_EQ(refused(folder_ / "absent"), Code::not_found);
  EXPECT_EQ(refused(write(1, 3, {1, 2, 3}, "MLOGITS2")), Code::invalid_value);
  EXPECT_EQ(refused(write(1, 4, {1, 2, 3})), Code::invalid_value);
  EXPECT_EQ(refused(write(1, 2, {1, 2, 3})), Code::invalid_value);
  EXPECT_EQ(refused(write(-1, 3, {1, 2, 3})), Code::invalid_value);
  EXPECT_EQ(refused(write(0, 3, {})), Code::invalid_value);
}

TEST_F(ReferenceFile, ItsRowsMustBeThoseOfTheContexts) {
  const auto first_row = [&](std::int32_t rows, std::uint32_t contexts, std::uint32_t vocabulary) {
    const auto values = std::vector<float>(static_cast<std::size_t>(rows) * 3);
    const LogitsFile file = must(LogitsFile::open(*env_, write(rows, 3, values)));
    const auto cut = must(cut_contexts(some_tokens(std::size_t{contexts} * 8, 3), {.size = 8}, 3));
    const auto row = file.first_row(cut, vocabulary);
    return row ? std::to_string(*row) : row.error().message;
  };
  EXPECT_EQ(first_row(8, 1, 3), "4");  // all positions of one context
  EXPECT_EQ(first_row(3, 1, 3), "0");  // the scored positions
  EXPECT_EQ(first_row(6, 2, 3), "0");
  EXPECT_NE(first_row(16, 2, 3).find("16 rows, which is not the number for 2 contexts of 8"),
            std::string::npos);  // one context of 16 is not two of 8
  EXPECT_NE(first_row(8, 1, 4).find("logits of 3 tokens, the model's vocabulary has 4"),
            std::string::npos);
}

class TinyRun : public ReferenceFile {
 protected:
  static constexpr std::uint32_t size = 40;
  GgufFile file_ = testing::TinyModel{}.file();
  FidelityContexts contexts_ =
      must(cut_contexts(some_tokens(2 * size + 5, 70), {.size = size}, 70));

  // Returns the scored logits of each context, computed directly.
  std::vector<float> scored_logits() {
    testing::ModelRunner runner(file_, {.kv_bytes = 1 << 20});
    std::vector<Tokens> sequences;
    for (std::uint32_t i = 0; i < contexts_.count(); ++i) {
      const auto context = contexts_.context(i);
      sequences.emplace_back(context.begin(), context.end());
    }
    runner.set_sequences(sequences, 3);
    std::vector<float> out;
    for (std::uint32_t i = 0; i < contexts_.count(); ++i) {
      runner.run(i, size);
      for (std::uint32_t at = contexts_.first; at + 1 < size; ++at) {
        out.insert(out.end(), runner.logits(i)[at].begin(), runner.logits(i)[at].end());
      }
    }
    return out;
  }
};

TEST_F(TinyRun, MeasuresF16AgainstItselfAndAgainstAFile) {
  std::vector<float> truth = scored_logits();
  double logprobs = 0;
  for (std::uint32_t row = 0; row < contexts_.positions(); ++row) {
    const auto each = contexts_.scored_each();
    const TokenId next = contexts_.context(row / each)[contexts_.first + row % each + 1];
    double sum = 0;
    for (std::uint32_t i = 0; i < 70; ++i) sum += std::exp(truth[row * 70 + i]);
    logprobs += truth[row * 70 + next] - std::log(sum);
  }
  // A truth far from the model: every other logit is greater by 1.
  std::vector<float> other = truth;
  for (std::size_t i = 0; i < other.size(); i += 2) other[i] += 1;
  const auto device = testing::open_device();
  std::vector<double> seen;
  for (const std::uint32_t step_tokens : {7u, 64u}) {
    LogitsFile same = must(LogitsFile::open(
        *env_, write(static_cast<std::int32_t>(contexts_.positions()), 70, truth)));
    auto run =
        must(FidelityRun::open(*device, file_, contexts_, {.step_tokens = step_tokens}, &same));
    const PolicyFidelity f16 = must(run->measure({}));
    EXPECT_EQ(f16.policy, "f16/f16");
    EXPECT_EQ(f16.layers, "f16/f16 x2");
    EXPECT_EQ(f16.bytes_per_token, 2 * 2 * 2 * 16 * 2);
    EXPECT_EQ(f16.compression, 1);
    EXPECT_EQ(f16.against_f16.positions, contexts_.positions());
    EXPECT_EQ(f16.against_f16.max_kld, 0);
    EXPECT_EQ(f16.against_f16.top1, 1);
    const double perplexity = std::exp(-logprobs / contexts_.positions());
    EXPECT_NEAR(f16.against_f16.perplexity, perplexity, 1e-4 * perplexity);
    ASSERT_TRUE(f16.against_reference.has_value());
    EXPECT_EQ(f16.against_reference->max_kld, 0);  // the same logits, computed in another way

    LogitsFile far = must(LogitsFile::open(
        *env_, write(static_cast<std::int32_t>(contexts_.positions()), 70, other)));
    run = must(FidelityRun::open(*device, file_, contexts_, {.step_tokens = step_tokens}, &far));
    const FidelityFigures moved = *must(run->measure({})).against_reference;
    EXPECT_GT(moved.mean_kld, 0.05);
    EXPECT_GT(std::fabs(moved.truth_perplexity - moved.perplexity), 0.1);
    seen.push_back(moved.mean_kld);
  }
  EXPECT_EQ(seen[0], seen[1]);  // the steps do not matter
}

// The first layer's keys, before rotation, depend only on their token.
std::vector<double> first_keys(const GgufFile& file, TokenId token) {
  const auto values = [&](const std::string& name) {
    const Tensor* const tensor = must(file.tensor(name));
    std::vector<float> out(tensor->elements());
    must(dequantize_rows(*tensor, 0, tensor->rows(), out));
    return std::vector<double>(out.begin(), out.end());
  };
  const auto embedding = values("token_embd.weight"), norm = values("blk.0.attn_norm.weight");
  const auto weight = values("blk.0.attn_k.weight");
  std::vector<double> keys = values("blk.0.attn_k.bias");
  const std::size_t width = norm.size();
  const double* const x = &embedding[token * width];
  const double square = std::inner_product(x, x + width, x, 0.0);
  const double scale = 1 / std::sqrt(square / static_cast<double>(width) + 1e-5);
  for (std::size_t r = 0; r < keys.size(); ++r) {
    for (std::size_t i = 0; i < width; ++i) {
      keys[r] += weight[r * width + i] * x[i] * scale * norm[i];
    }
  }
  return keys;
}

TEST_F(TinyRun, CalibrationFindsTheMeansOfUnrotatedKeys) {
  const auto device = testing::open_device();
  const KeyMeans means =
      must(calibrate_keys(*device, file_, contexts_, {.math = MathMode::exact, .step_tokens = 7}));
  EXPECT_EQ(means.tokens, 2 * (size - 1u));  // the first token of each context is left out
  EXPECT_TRUE(means.check(hash_model_file(file_), KvShape(2, {2, 16})));
  std::vector<double> want(means.layer(0).size());
  for (std::uint32_t c = 0; c < contexts_.count(); ++c) {
    for (std::uint32_t p = 1; p < size; ++p) {
      const std::vector<double> keys = first_keys(file_, contexts_.context(c)[p]);
      for (std::size_t i = 0; i < want.size(); ++i) {
        want[i] += keys[i] / static_cast<double>(means.tokens);
      }
    }
  }
  double largest = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(means.layer(0)[i]), want[i], 3e-4) << i;  // means are halves
    largest = std::max(largest, std::fabs(want[i]));
  }
  EXPECT_GT(largest, 0.1);
  // The steps do not matter.
  const CalibrateOptions whole{.math = MathMode::exact, .step_tokens = 64};
  EXPECT_EQ(must(calibrate_keys(*device, file_, contexts_, whole)).values, means.values);
}

// Floats take twice the memory of halves, so a context of them needs a larger cache.
TEST_F(TinyRun, FloatsAreMeasuredLikeEveryPolicy) {
  const auto device = testing::open_device();
  auto run = must(FidelityRun::open(*device, file_, contexts_, {.math = MathMode::exact}, nullptr));
  const PolicyFidelity floats = must(run->measure(must(parse_kv_policy("f32"))));
  EXPECT_EQ(floats.layers, "f32/f32 x2");
  EXPECT_EQ(floats.bytes_per_token, 2 * 2 * 2 * 16 * 4);
  EXPECT_EQ(floats.compression, 0.5);
  EXPECT_GT(floats.against_f16.max_kld, 0);  // halves are rounded
  EXPECT_LT(floats.against_f16.max_kld, 1e-5);
}

// With halves, subtracting the means and adding them back changes almost nothing. Means of another
// model are refused.
TEST_F(TinyRun, CenteredKeysGiveTheSameDistributions) {
  const auto device = testing::open_device();
  FidelityOptions options{.math = MathMode::exact};
  options.key_means = must(calibrate_keys(*device, file_, contexts_, {}));
  const auto plain =
      must(must(FidelityRun::open(*device, file_, contexts_, {}, nullptr))->measure({}));
  auto run = must(FidelityRun::open(*device, file_, contexts_, options, nullptr));
  const PolicyFidelity centered = must(run->measure({}));
  EXPECT_GT(centered.against_f16.max_kld, 0);  // the means were subtracted
  EXPECT_LT(centered.against_f16.max_kld, 1e-5);
  EXPECT_EQ(centered.layers, plain.layers + ", keys centered by " + options.key_means->digest());
  EXPECT_NE(centered.fingerprint, plain.fingerprint);

  options.key_means->model.low ^= 1;
  const auto other =
      must(FidelityRun::open(*device, file_, contexts_, options, nullptr))->measure({});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, Code::invalid_value);
  EXPECT_NE(other.error().message.find("another model file"), std::string::npos);
}

TEST_F(TinyRun, WhatTheModelCannotDoIsRefused) {
  const auto device = testing::open_device();
  auto run = must(FidelityRun::open(*device, file_, contexts_, {}, nullptr));
  const auto heads = run->measure(must(parse_kv_policy("q8")));  // heads of 16, groups of 64
  ASSERT_FALSE(heads);
  EXPECT_EQ(heads.error().code, Code::unsupported_field);
  const auto layers = run->measure(must(parse_kv_policy("f16~3,0")));
  ASSERT_FALSE(layers);
  EXPECT_EQ(layers.error().code, Code::invalid_value);
  const FidelityContexts wide = must(cut_contexts(some_tokens(2000, 70), {.size = 2000}, 70));
  const auto beyond = FidelityRun::open(*device, file_, wide, {}, nullptr);
  ASSERT_FALSE(beyond);
  EXPECT_NE(beyond.error().message.find("longer than the 1024"), std::string::npos);
}

// A model with 8 MiB of KV a token and weights in name only: they are read after the cache is
// created.
TEST_F(TinyRun, AContextWithoutRoomIsRefusedByItsOption) {
  testing::GgufBuilder built;
  built.string("general.architecture", "llama").u32("llama.block_count", 1024);
  built.u32("llama.embedding_length", 64).u32("llama.feed_forward_length", 96);
  built.u32("llama.attention.head_count", 4).u32("llama.attention.key_length", 512);
  built.u32("llama.attention.value_length", 512).u32("llama.context_length", 1u << 24);
  built.f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  built.tensor("token_embd.weight", {64, 70}, 0, std::vector<std::byte>(4 * 64 * 70));
  built.tensor("output_norm.weight", {1}, 0, std::vector<std::byte>(4));
  for (std::uint32_t i = 0; i < 1024; ++i) {
    for (const char* name : {"attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm",
                             "ffn_gate", "ffn_up", "ffn_down"}) {
      built.tensor("blk." + std::to_string(i) + "." + name + ".weight", {1}, 0,
                   std::vector<std::byte>(4));
    }
  }
  const GgufFile file = testing::TinyModel::file(built);
  const FidelityContexts huge{.tokens = {}, .size = 1u << 24, .first = 1};
  const auto device = testing::open_device();
  const auto measured = FidelityRun::open(*device, file, huge, {}, nullptr);
  const auto calibrated = calibrate_keys(*device, file, huge, {});
  ASSERT_FALSE(measured);
  ASSERT_FALSE(calibrated);
  for (const Error& error : {measured.error(), calibrated.error()}) {
    EXPECT_EQ(error.code, Code::out_of_memory);
    EXPECT_NE(error.message.find("the KV cache needs 128 TiB"), std::string::npos) << error.text();
    EXPECT_EQ(error.hint, "give a smaller --context");
  }
}

// A qwen2 whose second layer adds a constant to its keys, `size` times as large as other biases, as
// real models of that kind do. The queries are large enough for attention to depend on keys.
testing::TinyModel biased(float size) {
  return {
      .architecture = "qwen2",
      .width = 128,
      .heads = 2,
      .kv_heads = 1,
      .scales = {
          {"blk.1.attn_k.bias", size}, {"blk.1.attn_q.weight", 30.0f}, {"output.weight", 8.0f}}};
}

TEST(KeyOutliers, AreProtectedOrTheFidelityIsGone) {
  const auto device = testing::open_device();
  const FidelityContexts contexts = must(cut_contexts(some_tokens(80, 70), {.size = 80}, 70));
  struct Case {
    float size;
    const char *policy, *layers;
    double least, most;  // mean KLD
  };
  const Case cases[] = {{1, "r4/f16", "r4/f16 x2", 0, 4e-3},
                        {20, "r4/f16", "r4/f16 x1, r8/f16 x1", 0, 1e-3},
                        {20, "r4/f16+none", "r4/f16 x2", 2e-2, 10},
                        {20, "r4/f16+none+layer:1", "r4/f16 x1, f16/f16 x1", 0, 1e-3},
                        {60, "r8/f16", "r8/f16 x1, f16/f16 x1", 0, 1e-3}};
  for (const Case& c : cases) {
    const GgufFile file = biased(c.size).file();
    auto run = must(FidelityRun::open(*device, file, contexts, {.step_tokens = 24}, nullptr));
    const PolicyFidelity cost = must(run->measure(must(parse_kv_policy(c.policy))));
    EXPECT_EQ(cost.layers, c.layers) << c.policy << " " << c.size;
    EXPECT_LE(cost.against_f16.mean_kld, c.most) << c.policy << " " << c.size;
    EXPECT_GE(cost.against_f16.mean_kld, c.least) << c.policy << " " << c.size;
  }
}

// Each sample finds the outliers by itself. A layer's bias does not change the differences between
// its tokens; that shows only if the probe's keys are rotated back exactly.
TEST(KeyOutliers, AreFoundByTheFilesBiasesAndByTheProbe) {
  const auto device = testing::open_device();
  for (const char* architecture : {"llama", "qwen2"}) {
    std::vector<double> own, figures, biases;
    for (const float size : {1.0f, 20.0f}) {
      testing::TinyModel tiny = biased(size);
      tiny.architecture = architecture;
      const GgufFile file = tiny.file();
      const ModelSpec spec = must(read_spec(file));
      auto model = must(Model::load(*device, file, {.kv_bytes = 1 << 20, .step_tokens = 24}));
      const KeySample probe = must(keys_of_probe(*device, *model, spec, 24));
      const KvCodec codec{CodecKind::rotated, 4, 0};
      EXPECT_LT(outlier_figure(codec, probe.layers[0], 64), 3);
      own.push_back(probe.layers[1].at(0).own);
      figures.push_back(outlier_figure(codec, probe.layers[1], 64));
      biases.push_back(outlier_figure(codec, must(keys_of_biases(file, spec)).layers[1], 64));
    }
    EXPECT_NEAR(own[1], own[0], 0.01 * own[0]);
    EXPECT_LT(figures[0], 5);
    EXPECT_GT(figures[1], 20);
    // 64 uniform numbers between -6 and 6, over 64 x 128 products of two between -0.3 and 0.3.
    EXPECT_NEAR(biases[1], 10.2, 1);
    EXPECT_NEAR(biases[0], biases[1] / 20, 1e-6);
  }
}

}  // namespace
}  // namespace millrace::engine
