// Compares the norms and the products of heads of multi-head latent attention with float64, in both
// families, and the families with each other.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/model/head_products.hpp"
#include "engine/core/model/weight_uploads.hpp"
#include "tests/support/device.hpp"
#include "tests/support/gguf_builder.hpp"
#include "tests/support/random_blocks.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

constexpr float untouched = 12345.0f;

// Latents of queries and keys stand in one row, and the key goes into a row of qkv.
class SplitLatents : public ::testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(RowItems, SplitLatents, ::testing::Values(1u, 32u));

std::vector<double> rms(const float* x, const std::vector<float>& weight, double epsilon) {
  double squares = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) squares += double{x[i]} * x[i];
  std::vector<double> out;
  for (std::size_t i = 0; i < weight.size(); ++i) {
    out.push_back(x[i] * double{weight[i]} /
                  std::sqrt(squares / static_cast<double>(weight.size()) + epsilon));
  }
  return out;
}

TEST_P(SplitLatents, NormsTheLatentsAndKeepsWhatRotates) {
  constexpr std::uint32_t tokens = 5, rank = 64, turned = 16, lower = 40, key_row = 48, k_row = 160;
  constexpr std::uint32_t stride = key_row + rank + turned, query_stride = 80, qkv_stride = 240;
  constexpr float epsilon = 0.01f;
  const auto device = open_device();
  const Program program = must(device->build(
      {.name = "latent",
       .sources = {"latent/split.cl"},
       .defines = {"ROW_ITEMS=" + std::to_string(GetParam()), "HEAD_DIM=80", "HEADS=2",
                   "KV_HEADS=1", "VALUE_DIM=64", "VALUE_FIRST=16", "K_ROW=160"}}));
  Kernel kernel = must(device->kernel(program, "split_latents"));
  Random random(3);
  std::vector<float> x = random.floats(std::size_t{tokens} * stride, -2.0f, 2.0f);
  // A product writes zeros beyond the true width of the latent of queries.
  for (std::uint32_t t = 0; t < tokens; ++t) {
    std::fill_n(x.begin() + t * stride + lower, key_row - lower, 0.0f);
  }
  const std::vector<float> key_weight = random.floats(rank, 0.5f, 1.5f);
  const std::vector<float> query_weight = random.floats(lower, 0.5f, 1.5f);
  std::vector<float> padded = query_weight;
  padded.resize(key_row, 0.0f);
  const Buffer in = upload(*device, x), key_weights = upload(*device, key_weight);
  const Buffer query_weights = upload(*device, padded);
  for (const bool has_queries : {true, false}) {
    const std::vector<float> kept_queries(tokens * query_stride, untouched);
    const std::vector<float> kept_qkv(tokens * qkv_stride, untouched);
    const Buffer queries = upload(*device, kept_queries), qkv = upload(*device, kept_qkv);
    must(device->launch(
        kernel, {.groups = {tokens}, .local = {GetParam()}},
        {in, query_weights, key_weights, queries, qkv, has_queries ? key_row / 16 : 0u, key_row,
         stride, query_stride, qkv_stride, 1.0f / lower, epsilon}));
    const auto got_queries = download<float>(*device, queries, kept_queries.size());
    const auto got = download<float>(*device, qkv, kept_qkv.size());
    for (std::uint32_t t = 0; t < tokens; ++t) {
      const float* const row = &x[t * stride];
      const auto want_query = rms(row, query_weight, double{epsilon});
      const auto want_key = rms(row + key_row, key_weight, double{epsilon});
      for (std::uint32_t i = 0; i < query_stride; ++i) {
        const float value = got_queries[t * query_stride + i];
        if (!has_queries || i >= key_row) {
          ASSERT_EQ(value, untouched) << t << ", " << i;
        } else {
          ASSERT_NEAR(value, i < lower ? want_query[i] : 0.0, 1e-6) << t << ", " << i;
        }
      }
      for (std::uint32_t i = 0; i < qkv_stride; ++i) {
        const float value = got[t * qkv_stride + i];
        if (i < k_row) {
          ASSERT_EQ(value, untouched) << t << ", " << i;
        } else if (i < k_row + turned) {
          ASSERT_EQ(value, row[key_row + rank + i - k_row]) << t << ", " << i;
        } else {
          ASSERT_NEAR(value, want_key[i - k_row - turned], 1e-6) << t << ", " << i;
        }
      }
    }
  }
}

struct ProductCase {
  TensorType type;
  std::uint32_t columns, rows, heads;
};

// A matrix of each head, from a file, and rows of heads with gaps between them.
class HeadProduct : public ::testing::TestWithParam<ProductCase> {
 protected:
  static constexpr std::uint32_t tokens = 37, gap = 16;

  HeadProduct() : random_(11), in_(random_.floats(in_size(), -1.0f, 1.0f)) {
    const ProductCase& c = GetParam();
    const auto& traits = traits_of(c.type);
    const std::size_t elements = std::size_t{c.columns} * c.rows * c.heads;
    std::vector<std::byte> data;
    for (std::size_t i = 0; i < elements / traits.block_elements; ++i) {
      if (c.type == TensorType::f32) {
        testing::GgufBuilder::append(data, random_.uniform(-0.5f, 0.5f));
      } else {
        testing::append_random_block(data, c.type, random_, [&](std::uint32_t) {
          return static_cast<std::uint16_t>(0x2000 + random_.below(0x400));
        });
      }
    }
    testing::GgufBuilder builder;
    builder.string("general.architecture", "llama");
    builder.tensor("blk.0.attn_k_b.weight", {c.columns, c.rows, c.heads},
                   static_cast<std::uint32_t>(c.type), std::move(data));
    file_.emplace(must(GgufFile::parse(bytes_of(builder.build()), "heads.gguf")));
  }

  std::uint32_t in_head() const { return GetParam().columns + gap; }
  std::uint32_t in_token() const { return GetParam().heads * in_head() + gap; }
  std::uint32_t out_head() const { return GetParam().rows + gap; }
  std::uint32_t out_token() const { return GetParam().heads * out_head() + gap; }
  std::size_t in_size() const { return std::size_t{tokens} * in_token() + gap; }
  std::size_t out_size() const { return std::size_t{tokens} * out_token() + gap; }

  std::vector<float> run(const std::string& family, MathMode math, std::uint32_t count) {
    const auto device = open_device({.variant = family});
    ModelSpec spec;
    spec.layers.emplace_back();
    const auto backend = make_backend(Target(*device, spec, math));
    const ProductCase& c = GetParam();
    WeightUploads uploads(*backend, *file_);
    const ExpertMatrix matrix = must(
        load_head_matrix(*backend, *file_, "attn_k_b", c.columns, c.rows, c.heads, 0, uploads));
    must(uploads.run());
    HeadProducts products(*backend, c.heads, tokens);
    must(products.prepare(matrix));
    const Buffer in = upload(*device, in_);
    const Buffer out = upload(*device, std::vector<float>(out_size(), untouched));
    must(products.run(matrix, {in, gap, in_token(), in_head()}, {out, gap, out_token(), out_head()},
                      count));
    return download<float>(*device, out, out_size());
  }

  // The largest error against float64, relative to the sum of the terms' magnitudes. What lies
  // between the rows must be as it was.
  double worst(const std::vector<float>& got) {
    const ProductCase& c = GetParam();
    const Tensor* const tensor = must(file_->tensor("blk.0.attn_k_b.weight"));
    std::vector<float> weights(std::size_t{c.columns} * c.rows * c.heads);
    must(dequantize_rows(*tensor, 0, std::uint64_t{c.rows} * c.heads, weights));
    std::vector<bool> written(got.size());
    double worst = 0;
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint32_t h = 0; h < c.heads; ++h) {
        const float* const x = &in_[gap + t * in_token() + h * in_head()];
        for (std::uint32_t r = 0; r < c.rows; ++r) {
          const float* const w = &weights[(std::size_t{h} * c.rows + r) * c.columns];
          double sum = 0, size = 0;
          for (std::uint32_t k = 0; k < c.columns; ++k) {
            const double term = double{w[k]} * x[k];
            sum += term;
            size += std::fabs(term);
          }
          const std::size_t at = gap + t * out_token() + h * out_head() + r;
          written[at] = true;
          worst = std::max(worst, std::fabs(got[at] - sum) / size);
        }
      }
    }
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (written[i]) continue;
      EXPECT_EQ(got[i], untouched) << i;
    }
    return worst;
  }

 private:
  Random random_;
  std::vector<float> in_;
  std::optional<GgufFile> file_;
};

TEST_P(HeadProduct, EqualsFloat64AndDependsOnNoOtherToken) {
  for (const MathMode math : {MathMode::exact, MathMode::fast}) {
    const bool codes = math == MathMode::fast && GetParam().type != TensorType::f32;
    const std::vector<float> reference = run("generic", math, tokens);
    EXPECT_LT(worst(reference), codes ? 4e-3 : 1e-6);
    const std::vector<float> one = run("generic", math, 1);
    const auto size = static_cast<std::ptrdiff_t>(out_token());
    EXPECT_TRUE(std::equal(one.begin(), one.begin() + size, reference.begin()));
    if (!testing::has_cpu_family()) continue;
    EXPECT_TRUE(run("cpu", math, tokens) == reference);
    EXPECT_TRUE(run("cpu", math, 1) == one);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, HeadProduct,
                         ::testing::Values(ProductCase{TensorType::f32, 16, 32, 4},
                                           ProductCase{TensorType::f32, 48, 80, 3},
                                           ProductCase{TensorType::q8_0, 128, 64, 5},
                                           ProductCase{TensorType::q4_0, 64, 48, 1}),
                         [](const auto& one) {
                           const ProductCase& c = one.param;
                           return std::string(traits_of(c.type).name) + "_" +
                                  std::to_string(c.columns) + "to" + std::to_string(c.rows) + "x" +
                                  std::to_string(c.heads);
                         });

}  // namespace
}  // namespace millrace::engine
