// Compares integer matrix products bit for bit with the contract, which the host computes: every
// variant that this machine can run, every panel format, tile width and batch size.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numeric>

#include "engine/core/gguf/half.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/panel.hpp"
#include "kernels/quantize/code_block.h"
#include "tests/support/device.hpp"
#include "tests/support/one_layer.hpp"
#include "tests/unit/kernels/packed_matrix.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

// The variants that the device's compiler accepts and this processor can run.
std::vector<std::string> variants() {
  std::vector<std::string> out{"generic"};
  if (!testing::has_cpu_family()) return out;
  const Dot best = open_device({.variant = "cpu"})->dot();
  for (const Dot dot : all_dots) {
    if (dot <= best && processor_has(dot)) out.push_back("cpu-" + std::string(dot_name(dot)));
  }
  return out;
}

struct Call {
  std::uint32_t columns = 0, mode = 0;
  std::vector<std::int32_t> x;  // [columns][code_stride]
  std::vector<float> bias, before;
};

// Fills a quantized column with random codes, or with the largest ones.
void fill_column(std::int32_t* x, std::uint32_t k, Extremes extremes, Random& random) {
  for (std::uint32_t b = 0; b < k / 32; ++b, x += Q_WORDS) {
    std::array<std::int8_t, 32> codes;
    std::int32_t sum = 0, half = 0;
    for (std::uint32_t i = 0; i < 32; ++i) {
      const int most = b % 2 == 0 ? 127 : -127;
      codes[i] = static_cast<std::int8_t>(
          extremes == Extremes::all ? most : static_cast<int>(random.below(255)) - 127);
      sum += codes[i];
      if (i < 16) half += codes[i];
    }
    std::memcpy(x, codes.data(), codes.size());
    const float scale = random.uniform(0, 0.1f);
    x[Q_SCALE] = std::bit_cast<std::int32_t>(scale);
    x[Q_SUM] = std::bit_cast<std::int32_t>(scale * static_cast<float>(sum));
    x[Q_OFFSET] = -8 * sum;
    x[Q_OFFSET_HALF] = -8 * half;
  }
}

Call random_call(const Matrix& m, std::uint32_t columns, std::uint32_t mode, Extremes extremes,
                 Random& random) {
  const std::uint32_t stride = code_stride(m.layout.columns);
  Call call{.columns = columns, .mode = mode, .x = {}, .bias = {}, .before = {}};
  // The rows after the last one hold garbage, which the contract allows.
  call.x.assign(std::size_t{stride} * (columns + input_slack_rows), 0x7fc00000);
  for (std::uint32_t c = 0; c < columns; ++c) {
    fill_column(&call.x[std::size_t{c} * stride], m.layout.k(), extremes, random);
  }
  call.bias = random.floats(m.panels * 16, -1, 1);
  call.before = random.floats(std::size_t{m.panels} * 16 * columns, -1, 1);
  return call;
}

// Computes one output by the contract of kernels/matmul/integer_generic.cl.
float expected(const Matrix& m, const Call& call, std::uint32_t row, std::uint32_t column) {
  const PanelFormat& format = m.layout.format;
  const std::uint32_t k = m.layout.k(), blocks = k / 32, each = format.scales_per_block();
  const std::int32_t* x = &call.x[std::size_t{column} * code_stride(m.layout.columns)];
  float acc = 0;
  for (std::uint32_t b = 0; b < blocks; ++b, x += Q_WORDS) {
    const float* const d = &m.scales[(std::size_t{row} * blocks + b) * each];
    std::array<std::int8_t, 32> codes;
    std::memcpy(codes.data(), x, codes.size());
    for (std::uint32_t from = 0; from < 32; from += format.scale_block) {
      std::int32_t sum = 0;
      for (std::uint32_t i = from; i < from + format.scale_block; ++i) {
        const std::uint8_t code = m.codes[std::size_t{row} * k + b * 32 + i];
        sum += ((format.levels ? m.line[code] : code) - format.offset) * codes[i];
      }
      const float scale = d[from / format.scale_block] * std::bit_cast<float>(x[Q_SCALE]);
      acc = std::fma(static_cast<float>(sum), scale, acc);
    }
    for (std::uint32_t run = 0; format.affine && run < format.runs(); ++run) {
      const auto first = codes.begin() + run * format.scale_block;
      const int sum = std::accumulate(first, first + format.scale_block, 0);
      const float t = std::bit_cast<float>(x[Q_SCALE]) * static_cast<float>(sum);
      acc = std::fma(d[format.runs() + run], t, acc);
    }
  }
  const std::size_t at = std::size_t{column} * m.panels * 16 + row;
  if ((call.mode & 2) != 0) acc = acc + call.bias[row];
  if ((call.mode & 1) != 0) acc = acc + call.before[at];
  return acc;
}

class Variant {
 public:
  Variant(const std::string& name, const PanelLayout& layout,
          const std::optional<kernels::Tuning>& tuning = {}, std::uint32_t compute_units = 0)
      : device_(open_device({.variant = name, .compute_units = compute_units})),
        operations_(*device_, one_head(), MathMode::fast, {}, tuning) {
    projection_.columns = layout.columns;
    projection_.first = {0};
    projection_.runs.push_back(
        {.format = layout.format, .first_row = 0, .panels = 0, .buffer = {}});
    must(operations_.prepare_product(projection_));
  }

  // [columns][16 * panels]
  std::vector<float> run(const Matrix& m, const Call& call) {
    WeightRun& run = projection_.runs[0];
    run.buffer = upload(*device_, m.packed);
    run.panels = m.panels;
    projection_.rows = m.panels * 16;
    projection_.bias = (call.mode & 2) != 0 ? upload(*device_, call.bias) : Buffer();
    const Activation x{.rows = {}, .codes = upload(*device_, call.x)};
    const Buffer out = upload(*device_, call.before);
    must(operations_.project(projection_, x, call.columns, out, projection_.rows,
                             (call.mode & 1) != 0 ? Accumulate::add : Accumulate::replace));
    return download<float>(*device_, out, call.before.size());
  }

 private:
  static ModelSpec one_head() { return one_layer({.head_dim = 32}); }
  std::unique_ptr<Device> device_;
  Operations operations_;
  Projection projection_;
};

void expect_contract(const Matrix& m, const Call& call, const std::vector<float>& got) {
  for (std::uint32_t c = 0; c < call.columns; ++c) {
    for (std::uint32_t r = 0; r < m.rows; ++r) {
      ASSERT_EQ(got[std::size_t{c} * m.panels * 16 + r], expected(m, call, r, c))
          << "row " << r << ", column " << c << " of " << call.columns;
    }
  }
}

struct NamedFormat {
  std::string types;  // the tensor types that are packed in this format
  PanelFormat format;
};

void PrintTo(const NamedFormat& format, std::ostream* to) {
  *to << format.types;
}

// The formats of the quantized tensor types.
std::vector<NamedFormat> formats() {
  std::vector<NamedFormat> out;
  for (const TensorTypeTraits& type : tensor_types()) {
    const PanelFormat format = format_of(type.type);
    if (!format.quantized()) continue;
    const auto known = std::ranges::find(out, format, &NamedFormat::format);
    if (known == out.end()) {
      out.push_back({std::string(type.name), format});
    } else {
      known->types += "_" + std::string(type.name);
    }
  }
  return out;
}

class IntegerMatmul : public ::testing::TestWithParam<NamedFormat> {
 protected:
  // Steps need whole groups of 256.
  static std::uint32_t columns() { return GetParam().format.has_steps() ? 512 : 96; }
};

TEST_P(IntegerMatmul, EveryVariantKeepsTheContractBitForBit) {
  const PanelFormat format = GetParam().format;
  for (const std::string& name : variants()) {
    SCOPED_TRACE(name);
    Variant variant(name, {format, columns()});
    Random random(7);
    for (const std::uint32_t rows : {5u, 71u, 150u}) {
      const Matrix m = random_matrix(format, rows, columns(), Extremes::none, random);
      for (const std::uint32_t n :
           {1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u, 9u, 11u, 12u, 13u, 16u, 23u, 25u, 37u}) {
        const Call call = random_call(m, n, n % 4, Extremes::none, random);
        ASSERT_NO_FATAL_FAILURE(expect_contract(m, call, variant.run(m, call))) << rows << " rows";
      }
    }
  }
}

TEST(IntegerMatmulTuning, ChangesNoBit) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  const PanelFormat format = format_of(TensorType::q4_1);
  Random random(9);
  const Matrix m = random_matrix(format, 71, 96, Extremes::none, random);
  const Call call = random_call(m, 23, 0, Extremes::none, random);
  for (const std::uint32_t tile : {4u, 6u}) {
    SCOPED_TRACE("tiles of " + std::to_string(tile));
    const kernels::Tuning tuning{
        .float_tile = 16, .integer_tile = tile, .product_groups = 1, .attention_sums = 24};
    Variant variant("cpu", {format, 96}, tuning);
    ASSERT_NO_FATAL_FAILURE(expect_contract(m, call, variant.run(m, call)));
  }
}

// The product is large enough that groups also claim parts of the columns.
TEST(IntegerMatmulChunks, ChangeNoBit) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  const PanelFormat format = format_of(TensorType::q4_1);
  Random random(10);
  const Matrix m = random_matrix(format, 139, 2048, Extremes::none, random);
  for (const std::string& name : variants()) {
    SCOPED_TRACE(name);
    Variant variant(name, {format, 2048});
    for (const std::uint32_t n : {61u, 130u, 230u}) {
      const Call call = random_call(m, n, 3, Extremes::none, random);
      ASSERT_NO_FATAL_FAILURE(expect_contract(m, call, variant.run(m, call)));
      // A second launch shows whether the first one has reset its counters.
      ASSERT_NO_FATAL_FAILURE(expect_contract(m, call, variant.run(m, call)));
    }
  }
}

// A part of the shorter columns is one tile: 17 columns are 16 and 1. The longer ones are beyond
// what the matrix unit takes (kernels/matmul/matrix_tiles.cl).
class LongIntegerMatmul : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(LongIntegerMatmul, KeepsTheContractBitForBit) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  const std::uint32_t columns = GetParam();
  const PanelFormat format = format_of(TensorType::q4_1);
  Random random(11);
  const Matrix m = random_matrix(format, 33, columns, Extremes::none, random);
  for (const std::string& name : variants()) {
    SCOPED_TRACE(name);
    Variant variant(name, {format, columns});
    for (const std::uint32_t n : {17u, 35u}) {
      const Call call = random_call(m, n, 0, Extremes::none, random);
      ASSERT_NO_FATAL_FAILURE(expect_contract(m, call, variant.run(m, call)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Columns, LongIntegerMatmul, ::testing::Values(25'600, 65'568));

// The largest sums of each sign saturate in instructions that are not exact.
TEST_P(IntegerMatmul, TheLargestCodesAreSummedExactly) {
  const PanelFormat format = GetParam().format;
  for (const std::string& name : variants()) {
    SCOPED_TRACE(name);
    Variant variant(name, {format, columns()});
    Random random(8);
    const Matrix m = random_matrix(format, 32, columns(), Extremes::all, random);
    for (const std::uint32_t n : {1u, 12u}) {
      const Call call = random_call(m, n, 0, Extremes::all, random);
      ASSERT_NO_FATAL_FAILURE(expect_contract(m, call, variant.run(m, call)));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Formats, IntegerMatmul, ::testing::ValuesIn(formats()),
                         [](const auto& format) { return format.param.types; });

TEST(IntegerMatmulFormats, AreThoseOfEveryQuantizedType) {
  std::string all;
  for (const NamedFormat& format : formats()) all += format.types + " ";
  EXPECT_EQ(all,
            "Q8_0 Q6_K Q5_0 Q5_1 Q5_K Q4_0 Q4_1 Q4_K Q3_K Q2_K "
            "IQ4_NL_IQ4_XS_IQ3_S_IQ3_XXS_IQ2_XXS_MXFP4 IQ2_S_IQ2_XS_NVFP4 ");
}

// Computes codes of SiLU(gate) * up for `tokens` normed rows of 96 channels.
std::vector<std::int32_t> gate_up(const std::string& variant, std::uint32_t tokens) {
  constexpr std::uint32_t width = 96, ffn = 96;
  ModelSpec spec = one_layer({.heads = 3, .kv_heads = 1, .head_dim = 32});
  spec.width = width;
  const auto device = open_device({.variant = variant});
  Operations operations(*device, spec, MathMode::fast);
  must(operations.prepare_layer());
  Random random(tokens);
  const PanelFormat format = format_of(TensorType::q4_1);
  const Matrix m = random_matrix(format, 2 * ffn, width, Extremes::none, random);
  Projection projection;
  projection.columns = width;
  projection.rows = 2 * ffn;
  projection.first = {0, ffn};
  projection.runs.push_back(
      {.format = format, .first_row = 0, .panels = m.panels, .buffer = upload(*device, m.packed)});
  must(operations.prepare_product(projection));
  const std::size_t rows = tokens + input_slack_rows, codes = std::size_t{code_stride(ffn)} * rows;
  const Buffer x = upload(*device, random.floats(input_stride(width) * rows, -1, 1));
  const Buffer weight = upload(*device, random.floats(width, 0.001f, 0.002f));
  const Buffer sums = upload(*device, std::vector<float>(2 * ffn * rows));
  const Buffer words = upload(*device, std::vector<std::uint32_t>(16));
  const Activation normed{
      .rows = {}, .codes = upload(*device, std::vector<std::int32_t>(code_stride(width) * rows))};
  const Activation out{.rows = {}, .codes = upload(*device, std::vector<std::int32_t>(codes))};
  StepTable step;
  step.tokens = tokens;
  must(operations.norm(x, weight, normed, {.codes = true}, step, words, false));
  must(operations.gated(normed, projection, sums, out, {.codes = true}, tokens));
  return download<std::int32_t>(*device, out.codes, codes);
}

// The generic family runs a product, the gate and quantization in turn, and each has its own test.
TEST(GateUp, IsTheProductThenTheGateThenCodes) {
  if (!testing::has_cpu_family()) GTEST_SKIP() << testing::needs_cpu_family;
  for (const std::uint32_t tokens : {1u, 5u, 12u, 33u, 40u, 64u}) {
    const auto expected = gate_up("generic", tokens);
    for (const std::string& name : variants()) {
      EXPECT_EQ(gate_up(name, tokens), expected) << name << ", " << tokens << " tokens";
    }
  }
}

}  // namespace
}  // namespace millrace::engine
