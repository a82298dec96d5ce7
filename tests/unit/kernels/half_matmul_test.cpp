// Compares products of halves (kernels/matmul/half_nvidia.cl; on GPUs that have its instructions
// also half_wgmma.cl) with float64 in every format and every shape, and all shapes with each other
// bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <vector>

#include "engine/core/gguf/half.hpp"
#include "engine/core/model/backend/nvidia/wide_products.hpp"
#include "engine/core/model/operations.hpp"
#include "tests/support/device.hpp"
#include "tests/support/one_layer.hpp"
#include "tests/unit/kernels/file_matrix.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

float to_half(float value) {
  return half_to_float(float_to_half(value));
}

// Products by one matrix, with x as rows that become codes on the device.
class Products {
 public:
  Products(const FileMatrix& matrix, std::uint32_t compute_units, std::uint32_t wide_shape = 0,
           bool stored = false)
      : device_(open_device({.variant = "nvidia", .compute_units = compute_units})),
        operations_(*device_, one_layer({.head_dim = 32}), MathMode::fast,
                    {.wide_shape = wide_shape}),
        matrix_(matrix) {
    const Backend& backend = operations_.backend();
    const PanelFormat format =
        stored ? backend.stored_format(matrix.type, matrix.columns, false) : format_of(matrix.type);
    const std::uint64_t bytes = backend.panel_bytes(format, matrix.columns);
    panels_ = round_up(matrix.rows, panel_rows) / panel_rows;
    std::vector<std::byte> packed(panels_ * bytes);
    for (std::uint32_t p = 0; p < panels_; ++p) {
      backend.pack(format, matrix.tensor(), p, std::span(packed).subspan(p * bytes, bytes), 1.0f);
    }
    projection_.columns = matrix.columns;
    projection_.rows = panels_ * panel_rows;
    projection_.first = {0};
    projection_.runs.push_back(
        {.format = format, .first_row = 0, .panels = panels_, .buffer = upload(*device_, packed)});
    must(operations_.prepare_layer());
    must(operations_.prepare_product(projection_));
  }

  // x is [columns][matrix.columns]; returns [columns][rows rounded up to 16].
  std::vector<float> run(const std::vector<float>& x, std::uint32_t columns,
                         const std::vector<float>& before, const std::vector<float>& bias) {
    const std::uint32_t k = matrix_.columns, stride = input_stride(k);
    std::vector<float> rows(std::size_t{stride} * (columns + input_slack_rows), 1e30f);
    for (std::uint32_t c = 0; c < columns; ++c) {
      std::copy_n(&x[std::size_t{c} * k], k, &rows[std::size_t{c} * stride]);
    }
    const std::size_t words = operations_.target().code_words(k, columns);
    const Activation in{.rows = upload(*device_, rows),
                        .codes = upload(*device_, std::vector<std::uint32_t>(words, 0x7fffffff))};
    must(operations_.complete(in, {.rows = true}, {.codes = true}, k, columns));
    projection_.bias = upload(*device_, bias);
    const Buffer out = upload(*device_, before);
    must(operations_.project(projection_, in, columns, out, projection_.rows, Accumulate::add));
    return download<float>(*device_, out, before.size());
  }

  std::uint32_t out_rows() const { return projection_.rows; }
  PanelFormat format() const { return projection_.runs[0].format; }

 private:
  std::unique_ptr<Device> device_;
  Operations operations_;
  const FileMatrix& matrix_;
  std::uint32_t panels_ = 0;
  Projection projection_;
};

std::vector<TensorType> types() {
  std::vector<TensorType> out;
  for (const TensorTypeTraits& type : tensor_types()) {
    if (type.type != TensorType::f32) out.push_back(type.type);
  }
  return out;
}

class HalfMatmul : public ::testing::TestWithParam<TensorType> {};

struct Shapes {
  std::vector<std::uint32_t> units, columns;
};

// Devices of one, a few and many units choose different shapes. A processor compiles each shape of
// each type for a second or two, so that there only some types run all of them.
Shapes shapes_of(TensorType type, bool has_matrix_unit) {
  constexpr std::array all_shapes{TensorType::bf16, TensorType::q4_0, TensorType::q4_k};
  if (has_matrix_unit || std::ranges::find(all_shapes, type) != all_shapes.end()) {
    return {{1, 2, 3, 1000}, {1, 7, 8, 9, 32, 33, 64, 65, 100}};
  }
  return {{2}, {1, 33}};
}

TEST_P(HalfMatmul, IsCloseToFloat64AndTheSameInEveryShape) {
  Random random(3);
  const std::uint32_t k = std::max(96u, 2 * traits_of(GetParam()).block_elements);
  const bool has_matrix_unit = open_device({.variant = "nvidia"})->info().has_matrix_unit();
  // More columns than the tiles of instructions of four warps; one warp's are narrower.
  const std::uint32_t most = has_matrix_unit ? 250 : 100;
  Shapes shapes = shapes_of(GetParam(), has_matrix_unit);
  shapes.columns.push_back(most);
  const FileMatrix matrix = random_file_matrix(GetParam(), 150, k, random);
  const std::vector<float> x = random.floats(std::size_t{most} * k, -2, 2);
  const std::vector<float> bias = random.floats(160, -1, 1);
  std::vector<float> first;
  for (const std::uint32_t units : shapes.units) {
    Products products(matrix, units);
    const std::uint32_t rows = products.out_rows();
    const std::vector<float> before = Random(4).floats(std::size_t{most} * rows, -1, 1);
    for (const std::uint32_t n : shapes.columns) {
      const std::vector<float> start(before.begin(), before.begin() + n * rows);
      const std::vector<float> got = products.run(x, n, start, bias);
      if (first.empty() && n == 1) first = products.run(x, most, before, bias);
      for (std::uint32_t c = 0; c < n; ++c) {
        for (std::uint32_t r = 0; r < matrix.rows; ++r) {
          const std::size_t at = std::size_t{c} * rows + r;
          ASSERT_EQ(std::bit_cast<std::uint32_t>(got[at]), std::bit_cast<std::uint32_t>(first[at]))
              << "row " << r << ", column " << c << " of " << n << ", " << units << " units";
        }
      }
    }
    for (std::uint32_t c = 0; c < most; ++c) {
      for (std::uint32_t r = 0; r < matrix.rows; ++r) {
        double sum = 0, size = 0;
        for (std::uint32_t i = 0; i < k; ++i) {
          const double term = static_cast<double>(to_half(matrix.values[r * k + i])) *
                              static_cast<double>(to_half(x[std::size_t{c} * k + i] / 16) * 16);
          sum += term;
          size += std::abs(term);
        }
        const std::size_t at = std::size_t{c} * rows + r;
        const double expected = sum + static_cast<double>(bias[r] + before[at]);
        ASSERT_NEAR(first[at], expected, 2e-6 * (size + 2)) << "row " << r << ", column " << c;
      }
    }
  }
}

// Wide shapes take any number of columns here, of which some fill no tile.
TEST_P(HalfMatmul, EachShapeOfFourWarpsHasTheBitsOfOneWarp) {
  if (open_device({.variant = "nvidia"})->info().compute_capability != 90) {
    GTEST_SKIP() << "the device lacks the instructions of four warps";
  }
  Random random(6);
  const std::uint32_t k = std::max(224u, 3 * traits_of(GetParam()).block_elements);
  const FileMatrix matrix = random_file_matrix(GetParam(), 150, k, random);
  const std::uint32_t most = 300;
  const std::vector<float> x = random.floats(std::size_t{most} * k, -2, 2);
  const std::vector<float> bias = random.floats(160, -1, 1);
  // One warp's instructions take so few columns.
  Products narrow(matrix, 1);
  const std::uint32_t rows = narrow.out_rows();
  const std::vector<float> before = random.floats(std::size_t{most} * rows, -1, 1);
  const std::uint32_t few = 5;
  const auto expected = narrow.run(x, few, {before.begin(), before.begin() + few * rows}, bias);
  std::vector<float> first;
  for (std::uint32_t shape = 1; shape <= WideProducts::shapes(format_of(GetParam())); ++shape) {
    for (const std::uint32_t units : {1u, 1000u}) {
      Products wide(matrix, units, shape);
      for (const std::uint32_t n : {1u, 5u, 64u, 65u, most}) {
        const auto got = wide.run(x, n, {before.begin(), before.begin() + n * rows}, bias);
        if (n == most && first.empty()) first = got;
        const std::vector<float>& other = n == most ? first : expected;
        for (std::size_t i = 0; i < std::min(got.size(), other.size()); ++i) {
          if (i % rows >= matrix.rows) continue;
          ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(other[i]))
              << "output " << i << " of " << n << " columns, shape " << shape;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, HalfMatmul, ::testing::ValuesIn(types()),
                         [](const auto& type) { return std::string(traits_of(type.param).name); });

// BF16 is stored as halves where products alone read it.
TEST(HalfMatmulStored, HalvesOfBf16HaveTheBitsOfBf16) {
  Random random(7);
  const FileMatrix matrix = random_file_matrix(TensorType::bf16, 50, 96, random);
  Products own(matrix, 2), stored(matrix, 2, 0, true);
  ASSERT_EQ(own.format().codes, Codes::bf16);
  ASSERT_EQ(stored.format().codes, Codes::f16);
  const std::uint32_t rows = own.out_rows();
  const std::vector<float> x = random.floats(std::size_t{20} * 96, -2, 2), bias(rows);
  for (const std::uint32_t n : {1u, 20u}) {
    const std::vector<float> before(std::size_t{n} * rows);
    const auto expected = own.run(x, n, before, bias), got = stored.run(x, n, before, bias);
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (i % rows >= matrix.rows) continue;
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i]))
          << "output " << i << " of " << n << " columns";
    }
  }
}

// A number beyond the halves shows in every output of its column, and in no other.
TEST(HalfMatmulRange, WhatIsTooLargeIsNotHidden) {
  Random random(5);
  const FileMatrix matrix = random_file_matrix(TensorType::q8_0, 32, 64, random);
  Products products(matrix, 1);
  std::vector<float> x = random.floats(3 * 64, -2, 2);
  x[64 + 5] = 2e6f;
  const auto got = products.run(x, 3, std::vector<float>(3 * 32), std::vector<float>(32));
  for (std::uint32_t r = 0; r < 32; ++r) {
    EXPECT_TRUE(std::isfinite(got[r]) && std::isfinite(got[64 + r]));
    EXPECT_FALSE(std::isfinite(got[32 + r])) << "row " << r;
  }
}

}  // namespace
}  // namespace millrace::engine
