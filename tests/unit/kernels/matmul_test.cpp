// Compares every variant of the matrix product with float64 on random shapes, and all variants,
// tile widths and batch sizes with each other bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/model/backend/pack.hpp"
#include "engine/core/model/operations.hpp"
#include "tests/support/device.hpp"
#include "tests/support/random_blocks.hpp"

namespace millrace::engine {
namespace {

using testing::append_random_block;
using testing::append_value;
using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

struct Matrix {
  Tensor tensor;
  std::vector<std::byte> bytes;
  std::uint32_t rows = 0, columns = 0;
};

// Returns a half of moderate size; some are zero, subnormal or negative.
std::uint16_t random_half(Random& random) {
  const std::uint32_t kind = random.below(16);
  const auto sign = static_cast<std::uint16_t>(random.below(2) << 15);
  if (kind == 0) return sign;
  if (kind == 1) return static_cast<std::uint16_t>(sign | random.below(0x400));
  return static_cast<std::uint16_t>(sign | (0x2400 + random.below(0x1800)));
}

void append_block(TensorType type, Random& random, std::vector<std::byte>& to) {
  if (type == TensorType::f32) {
    append_value(to, random.uniform(-1.0f, 1.0f));
  } else if (type == TensorType::f16) {
    append_value(to, random_half(random));
  } else if (type == TensorType::bf16) {
    const std::uint32_t sign = random.below(2) << 15;
    append_value(to, static_cast<std::uint16_t>(0x3c00 + random.below(0x400) + sign));
  } else {
    append_random_block(to, type, random, [&](std::uint32_t) { return random_half(random); });
  }
}

Matrix random_matrix(TensorType type, std::uint32_t rows, std::uint32_t columns, Random& random) {
  Matrix out;
  out.rows = rows;
  out.columns = columns;
  const std::uint32_t blocks = rows * (columns / traits_of(type).block_elements);
  for (std::uint32_t i = 0; i < blocks; ++i) append_block(type, random, out.bytes);
  out.tensor.name = "random";
  out.tensor.type = type;
  out.tensor.rank = 2;
  out.tensor.shape = {columns, rows, 1, 1};
  return out;
}

struct Call {
  std::uint32_t columns = 1;  // of x
  std::uint32_t mode = 0;
  std::vector<float> x;  // [columns][input_stride]
  std::vector<float> bias, before;
};

class MatmulVariant {
 public:
  MatmulVariant(const std::string& variant, std::uint32_t tile, Matrix& matrix)
      : device_(open_device({.variant = variant})), matrix_(matrix) {
    matrix.tensor.data = matrix.bytes;
    const PanelLayout layout{format_of(matrix.tensor.type), matrix.columns};
    panels_ = round_up(matrix.rows, panel_rows) / panel_rows;
    std::vector<std::byte> packed(panels_ * layout.panel_bytes());
    for (std::uint32_t p = 0; p < panels_; ++p) {
      pack_panel(layout, matrix.tensor, p,
                 std::span(packed).subspan(p * layout.panel_bytes(), layout.panel_bytes()));
    }
    weight_ = upload(*device_, packed);
    std::vector<std::string> defines = layout.defines();
    if (variant == "cpu") {
      defines.push_back("X_STRIDE=" + std::to_string(input_stride(matrix.columns)));
      defines.push_back("FLOAT_TILE=" + std::to_string(tile));
    } else {
      defines.push_back("GROUP_COLUMNS=" + std::to_string(group_columns));
    }
    const Program program = must(device_->build({.name = "matmul",
                                                 .sources = {"matmul/exact_" + variant + ".cl"},
                                                 .defines = std::move(defines)}));
    kernel_ = must(device_->kernel(program, "matmul"));
  }

  // [columns][rows rounded up to 16]
  std::vector<float> run(const Call& call, std::uint32_t groups) {
    const std::uint32_t stride = panels_ * panel_rows;
    const Buffer x = upload(*device_, call.x);
    const Buffer bias = upload(*device_, call.bias);
    const Buffer out = upload(*device_, call.before);
    Grid grid{.groups = {std::min(groups, panels_)}};
    if (device_->family() != Family::cpu) {
      grid = {.groups = {panels_, (call.columns + group_columns - 1) / group_columns},
              .local = {panel_rows, group_columns}};
    }
    must(device_->launch(kernel_, grid,
                         {weight_, x, out, bias, panels_, call.columns,
                          input_stride(matrix_.columns), stride, 0u, call.mode}));
    return download<float>(*device_, out, std::size_t{stride} * call.columns);
  }

 private:
  static constexpr std::uint32_t group_columns = 4;
  std::unique_ptr<Device> device_;
  Matrix& matrix_;
  std::uint32_t panels_ = 0;
  Buffer weight_;
  Kernel kernel_;
};

Call random_call(const Matrix& matrix, std::uint32_t columns, std::uint32_t mode, Random& random) {
  const std::uint32_t stride = input_stride(matrix.columns);
  const std::uint32_t padded = round_up(matrix.rows, panel_rows);
  Call call{.columns = columns, .mode = mode, .x = {}, .bias = {}, .before = {}};
  // The rows after the last one hold garbage, which the contract allows; the padding of a row is
  // zero.
  call.x.assign(std::size_t{stride} * (columns + input_slack_rows), 1e30f);
  for (std::uint32_t c = 0; c < columns; ++c) {
    for (std::uint32_t k = 0; k < stride; ++k) {
      call.x[std::size_t{c} * stride + k] = k < matrix.columns ? random.uniform(-2.0f, 2.0f) : 0.0f;
    }
  }
  call.bias = random.floats(padded, -1.0f, 1.0f);
  call.before = random.floats(std::size_t{padded} * columns, -1.0f, 1.0f);
  return call;
}

void expect_close(const Matrix& matrix, const Call& call, const std::vector<float>& got) {
  std::vector<float> weight(std::size_t{matrix.rows} * matrix.columns);
  must(dequantize_rows(matrix.tensor, 0, matrix.rows, weight));
  const std::uint32_t padded = round_up(matrix.rows, panel_rows);
  for (std::uint32_t c = 0; c < call.columns; ++c) {
    const float* const x = &call.x[std::size_t{c} * input_stride(matrix.columns)];
    for (std::uint32_t r = 0; r < matrix.rows; ++r) {
      double want = 0, size = 1;
      for (std::uint32_t k = 0; k < matrix.columns; ++k) {
        const double term = static_cast<double>(weight[std::size_t{r} * matrix.columns + k]) * x[k];
        want += term;
        size += std::fabs(term);
      }
      const std::size_t at = std::size_t{c} * padded + r;
      if ((call.mode & 2) != 0) want += call.bias[r];
      if ((call.mode & 1) != 0) want += call.before[at];
      ASSERT_NEAR(got[at], want, size * 1e-6) << "row " << r << ", column " << c;
    }
  }
}

class MatmulTest : public ::testing::TestWithParam<TensorType> {};

TEST_P(MatmulTest, EveryVariantEqualsTheOthersAndFloat64) {
  const TensorType type = GetParam();
  Random random(static_cast<std::uint64_t>(type) + 1);
  // There are two sizes of K, or one for types whose rows must be whole super-blocks.
  const std::uint32_t block = traits_of(type).block_elements;
  const std::uint32_t small = block == 1 ? 5 : block == 32 ? 32 : 512;
  const std::uint32_t large = block > 32 ? 512 : 96;
  for (const auto& [rows, columns] : std::vector<std::pair<std::uint32_t, std::uint32_t>>{
           {1, small}, {16, small}, {71, large}, {150, large}}) {
    Matrix matrix = random_matrix(type, rows, columns, random);
    MatmulVariant generic("generic", 1, matrix);
    std::optional<MatmulVariant> wide, narrow;
    if (testing::has_cpu_family()) {
      wide.emplace("cpu", 16, matrix);
      if (columns == large) narrow.emplace("cpu", 6, matrix);
    }
    for (const std::uint32_t n : {1u, 2u, 3u, 4u, 5u, 6u, 7u, 9u, 11u, 13u, 15u, 16u, 17u, 33u}) {
      const Call call = random_call(matrix, n, n % 4, random);
      const auto reference = generic.run(call, 1);
      ASSERT_NO_FATAL_FAILURE(expect_close(matrix, call, reference))
          << rows << " x " << columns << ", " << n << " columns";
      if (wide) {
        ASSERT_EQ(wide->run(call, 3), reference) << rows << " x " << columns << ", " << n;
        ASSERT_EQ(wide->run(call, 100), reference) << rows << " x " << columns << ", " << n;
      }
      if (narrow) {
        ASSERT_EQ(narrow->run(call, 2), reference) << rows << " x " << columns;
      }
    }
  }
}

TEST_P(MatmulTest, AColumnDoesNotDependOnItsNeighbours) {
  Random random(99);
  const std::uint32_t width = traits_of(GetParam()).block_elements > 32 ? 512 : 96;
  Matrix matrix = random_matrix(GetParam(), 80, width, random);
  MatmulVariant variant(testing::has_cpu_family() ? "cpu" : "generic", 16, matrix);
  const Call many = random_call(matrix, 40, 0, random);
  const auto together = variant.run(many, 2);
  const std::uint32_t stride = input_stride(matrix.columns);
  for (std::uint32_t c = 0; c < 40; c += 3) {
    Call one = random_call(matrix, 1, 0, random);
    std::copy_n(many.x.begin() + c * stride, stride, one.x.begin());
    const auto alone = variant.run(one, 1);
    const auto beside = std::span(together).subspan(std::size_t{c} * 80, 80);
    ASSERT_TRUE(
        std::ranges::equal(std::as_bytes(std::span(alone).first(80)), std::as_bytes(beside)));
  }
}

INSTANTIATE_TEST_SUITE_P(Types, MatmulTest,
                         ::testing::Values(TensorType::f32, TensorType::f16, TensorType::bf16,
                                           TensorType::q8_0, TensorType::q6_k, TensorType::q5_0,
                                           TensorType::q5_1, TensorType::q5_k, TensorType::q4_0,
                                           TensorType::q4_1, TensorType::q4_k, TensorType::q3_k,
                                           TensorType::q2_k, TensorType::iq4_nl, TensorType::nvfp4),
                         [](const auto& type) { return std::string(traits_of(type.param).name); });

}  // namespace
}  // namespace millrace::engine
