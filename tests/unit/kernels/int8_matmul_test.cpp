// Compares products of math int8 (kernels/matmul/int8_nvidia.cl; on GPUs that have its instructions
// also rows_wgmma.cl) with their contract bit for bit, in every type of tensor and every shape.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "engine/core/gguf/half.hpp"
#include "engine/core/model/backend/nvidia/wide_products.hpp"
#include "engine/core/model/backend/pack_int8.hpp"
#include "engine/core/model/operations.hpp"
#include "kernels/matmul/int8_panel.h"
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

// Rows of codes with a scale each.
struct CodedRows {
  std::uint32_t columns = 0;       // whole groups
  std::vector<std::int8_t> codes;  // [rows][columns]
  std::vector<float> scales;
};

// The rotated rows of values, whose last groups are filled up.
std::vector<float> rotated(const std::vector<float>& values, std::uint32_t columns) {
  const std::size_t padded = std::size_t{INT8_GROUPS(columns)} * INT8_GROUP;
  std::vector<float> out(values.size() / columns * padded);
  for (std::size_t r = 0; r < values.size() / columns; ++r) {
    std::copy_n(&values[r * columns], columns, &out[r * padded]);
  }
  rotate_groups(out);
  return out;
}

CodedRows weights_of(const FileMatrix& matrix) {
  CodedRows out{.columns = INT8_GROUPS(matrix.columns) * INT8_GROUP, .codes = {}, .scales = {}};
  const std::vector<float> values = rotated(matrix.values, matrix.columns);
  out.codes.resize(values.size());
  for (std::size_t r = 0; r < matrix.rows; ++r) {
    const std::size_t at = r * out.columns;
    out.scales.push_back(int8_row(std::span(values).subspan(at, out.columns), &out.codes[at]));
  }
  return out;
}

// Reads rows of a panel of activations.
CodedRows activations_of(const std::vector<std::uint32_t>& words, std::uint32_t columns,
                         std::uint32_t rows) {
  const std::uint32_t groups = INT8_GROUPS(columns);
  CodedRows out{.columns = groups * INT8_GROUP, .codes = {}, .scales = {}};
  const auto* bytes = reinterpret_cast<const std::int8_t*>(words.data());
  for (std::size_t r = 0; r < rows; ++r) {
    for (std::size_t k = 0; k < out.columns; ++k) {
      out.codes.push_back(bytes[INT8_VECTOR_AT(r, k / 16, groups) * 16 + k % 16]);
    }
    out.scales.push_back(std::bit_cast<float>(words[INT8_SCALE_AT(r, groups)]));
  }
  return out;
}

// The contract.
float product(const CodedRows& w, std::size_t row, const CodedRows& x, std::size_t column) {
  std::int32_t sum = 0;
  for (std::size_t k = 0; k < w.columns; ++k) {
    sum += std::int32_t{w.codes[row * w.columns + k]} * x.codes[column * w.columns + k];
  }
  return static_cast<float>(sum) * x.scales[column] * w.scales[row];
}

// Products by one matrix, with x as rows that become codes on the device.
class Products {
 public:
  Products(const FileMatrix& matrix, std::uint32_t compute_units, std::uint32_t wide_shape = 0)
      : device_(open_device({.variant = "nvidia", .compute_units = compute_units})),
        operations_(*device_, one_layer({.head_dim = 32}), MathMode::int8,
                    {.wide_shape = wide_shape}),
        matrix_(matrix) {
    const Backend& backend = operations_.backend();
    const PanelFormat format = backend.stored_format(matrix.type, matrix.columns, false);
    const std::uint64_t bytes = backend.panel_bytes(format, matrix.columns);
    const std::uint32_t panels = round_up(matrix.rows, panel_rows) / panel_rows;
    std::vector<std::byte> packed(panels * bytes);
    for (std::uint32_t p = 0; p < panels; ++p) {
      backend.pack(format, matrix.tensor(), p, std::span(packed).subspan(p * bytes, bytes), 1.0f);
    }
    projection_.columns = matrix.columns;
    projection_.rows = panels * panel_rows;
    projection_.first = {0};
    projection_.runs.push_back(
        {.format = format, .first_row = 0, .panels = panels, .buffer = upload(*device_, packed)});
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
    const std::size_t words = operations_.target().byte_words(k, columns);
    const Activation in{.rows = upload(*device_, rows),
                        .bytes = upload(*device_, std::vector<std::uint32_t>(words, 0x7fffffff))};
    must(operations_.complete(in, {.rows = true}, {.bytes = true}, k, columns));
    projection_.bias = upload(*device_, bias);
    const Buffer out = upload(*device_, before);
    must(operations_.project(projection_, in, columns, out, projection_.rows, Accumulate::add));
    codes_ = activations_of(download<std::uint32_t>(*device_, in.bytes, words), k, columns);
    return download<float>(*device_, out, before.size());
  }

  std::uint32_t out_rows() const { return projection_.rows; }
  // The codes of the x of the last run.
  const CodedRows& codes() const { return codes_; }

 private:
  std::unique_ptr<Device> device_;
  Operations operations_;
  const FileMatrix& matrix_;
  Projection projection_;
  CodedRows codes_;
};

std::vector<TensorType> types() {
  std::vector<TensorType> out;
  for (const TensorTypeTraits& type : tensor_types()) {
    if (type.type != TensorType::f32) out.push_back(type.type);
  }
  return out;
}

void expect_contract(const FileMatrix& matrix, Products& products, const std::vector<float>& x,
                     std::uint32_t columns) {
  const std::uint32_t rows = products.out_rows();
  Random random(4);
  const std::vector<float> bias = random.floats(rows, -1, 1);
  const std::vector<float> before = random.floats(std::size_t{columns} * rows, -1, 1);
  const auto got = products.run(x, columns, before, bias);
  const CodedRows w = weights_of(matrix);
  for (std::uint32_t c = 0; c < columns; ++c) {
    for (std::uint32_t r = 0; r < matrix.rows; ++r) {
      const std::size_t at = std::size_t{c} * rows + r;
      const float want = product(w, r, products.codes(), c) + bias[r] + before[at];
      ASSERT_EQ(std::bit_cast<std::uint32_t>(got[at]), std::bit_cast<std::uint32_t>(want))
          << "row " << r << ", column " << c << " of " << columns << ": " << got[at] << " and "
          << want;
    }
  }
}

class Int8Matmul : public ::testing::TestWithParam<TensorType> {};

TEST_P(Int8Matmul, HasTheBitsOfItsContract) {
  Random random(3);
  const std::uint32_t k = round_up(160, traits_of(GetParam()).block_elements);
  const FileMatrix matrix = random_file_matrix(GetParam(), 20, k, random);
  Products products(matrix, 1);
  const std::uint32_t columns = 9;
  expect_contract(matrix, products, random.floats(std::size_t{columns} * k, -2, 2), columns);
}

INSTANTIATE_TEST_SUITE_P(Types, Int8Matmul, ::testing::ValuesIn(types()),
                         [](const auto& type) { return std::string(traits_of(type.param).name); });

// Devices of one, a few and many units choose different shapes.
TEST(Int8Shapes, HaveTheBitsOfTheContract) {
  for (const std::uint32_t k : {96u, 128u, 704u}) {
    Random random(5);
    const FileMatrix matrix = random_file_matrix(TensorType::q8_0, 150, k, random);
    for (const std::uint32_t units : {1u, 3u, 1000u}) {
      Products products(matrix, units);
      for (const std::uint32_t columns : {1u, 8u, 33u, 70u}) {
        SCOPED_TRACE(std::to_string(units) + " units, K " + std::to_string(k));
        expect_contract(matrix, products, random.floats(std::size_t{columns} * k, -2, 2), columns);
      }
    }
  }
}

// Of instructions of four warps, on a GPU that has them.
TEST(Int8Shapes, EachShapeOfFourWarpsHasTheBitsOfTheContract) {
  if (open_device({.variant = "nvidia"})->info().compute_capability != 90) {
    GTEST_SKIP() << "the device lacks the instructions of four warps";
  }
  for (std::uint32_t shape = 1; shape <= WideProducts::shapes({.codes = Codes::bytes}); ++shape) {
    for (const std::uint32_t k : {96u, 704u, 4096u}) {
      Random random(8);
      const FileMatrix matrix = random_file_matrix(TensorType::q8_0, 150, k, random);
      for (const std::uint32_t units : {1u, 1000u}) {
        Products products(matrix, units, shape);
        for (const std::uint32_t columns : {1u, 65u, 300u}) {
          SCOPED_TRACE("shape " + std::to_string(shape) + ", K " + std::to_string(k));
          expect_contract(matrix, products, random.floats(std::size_t{columns} * k, -2, 2),
                          columns);
        }
      }
    }
  }
}

// Products of rows are near those of float64: the rotation is in both.
TEST(Int8Products, AreCloseToFloat64) {
  constexpr std::uint32_t k = 1024;
  Random random(9);
  const FileMatrix matrix = random_file_matrix(TensorType::q8_0, 32, k, random);
  Products products(matrix, 1);
  std::vector<float> x = random.floats(k, -1, 1);
  x[100] = 30;  // its group shares it
  const auto got = products.run(x, 1, std::vector<float>(32), std::vector<float>(32));
  double error = 0, size = 0;
  for (std::uint32_t r = 0; r < 32; ++r) {
    double want = 0;
    for (std::uint32_t i = 0; i < k; ++i) {
      want += static_cast<double>(matrix.values[r * k + i]) * static_cast<double>(x[i]);
    }
    error += (want - static_cast<double>(got[r])) * (want - static_cast<double>(got[r]));
    size += want * want;
  }
  EXPECT_LT(std::sqrt(error / size), 0.02);
}

// A number that is none, or is too large, shows in every output of its column, and in no other.
TEST(Int8Products, WhatIsTooLargeIsNotHidden) {
  constexpr std::uint32_t k = 256;
  Random random(7);
  const FileMatrix matrix = random_file_matrix(TensorType::q8_0, 32, k, random);
  Products products(matrix, 1);
  for (const float bad :
       {std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::quiet_NaN(), 2e30f}) {
    std::vector<float> x = random.floats(3 * k, -2, 2);
    x[k + 5] = bad;
    const auto got = products.run(x, 3, std::vector<float>(3 * 32), std::vector<float>(32));
    for (std::uint32_t r = 0; r < 32; ++r) {
      EXPECT_TRUE(std::isfinite(got[r]) && std::isfinite(got[64 + r]));
      EXPECT_TRUE(std::isnan(got[32 + r])) << "row " << r;
    }
  }
}

TEST(Int8Products, AWeightThatIsNoNumberShowsInTheScaleOfItsRow) {
  for (const float bad :
       {std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN()}) {
    std::vector<float> row = Random(8).floats(3 * INT8_GROUP, -2, 2);
    std::vector<std::int8_t> codes(row.size());
    rotate_groups(row);
    EXPECT_TRUE(std::isfinite(int8_row(row, codes.data())));
    row = Random(8).floats(3 * INT8_GROUP, -2, 2);
    row[INT8_GROUP + 7] = bad;  // other groups have numbers
    rotate_groups(row);
    EXPECT_FALSE(std::isfinite(int8_row(row, codes.data())));
  }
}

}  // namespace
}  // namespace millrace::engine
