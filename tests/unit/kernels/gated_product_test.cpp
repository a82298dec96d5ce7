// The product of gate and up that ends in their activation (kernels/matmul/store_tiles.cl) in every
// format, gate function and shape: it writes what the product, the activation and the conversion to
// codes write as kernels of their own, and nothing else, with the same bits in all shapes; and that
// is close to float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/core/gguf/dequantize.hpp"
#include "engine/core/gguf/half.hpp"
#include "engine/core/model/operations.hpp"
#include "engine/core/model/weight_uploads.hpp"
#include "tests/support/device.hpp"
#include "tests/support/one_layer.hpp"
#include "tests/support/tiny_model.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::TinyModel;
using testing::upload;

constexpr std::uint32_t filler = 0x7fff7fff;  // of outputs before, no number of a product

struct Shape {
  TensorType type = TensorType::q8_0;
  std::uint32_t columns = 0, width = 0;  // of x and of the activation
  Gate gate = Gate::silu;
  bool biases = true;
  MathMode math = MathMode::fast;
};

TinyModel model_of(const Shape& shape) {
  TinyModel model{.layers = 1, .width = shape.columns, .ffn_width = shape.width};
  model.biases = shape.biases;
  model.types = {{"blk.0.ffn_gate.weight", shape.type}, {"blk.0.ffn_up.weight", shape.type}};
  return model;
}

// Gate, up and their activation on a device of so many multiprocessors.
class Gated {
 public:
  Gated(const GgufFile& file, const Shape& shape, const DeviceOptions& options, bool pairs = true)
      : shape_(shape), device_(open_device(options)) {
    ModelSpec spec = one_layer({.head_dim = 32});
    spec.width = shape.columns;
    spec.layers[0].feed_forward = {.width = shape.width, .gate = shape.gate};
    operations_ = std::make_unique<Operations>(*device_, spec, shape.math);
    const std::vector<MatrixPart> parts{{.name = "blk.0.ffn_gate", .rows = shape.width},
                                        {.name = "blk.0.ffn_up", .rows = shape.width}};
    const Backend& backend = operations_->backend();
    WeightUploads uploads(backend, file);
    matrix_ = must(pairs ? load_gate_up(backend, file, parts, shape.columns, uploads)
                         : load_projection(backend, file, parts, shape.columns, uploads));
    must(uploads.run());
    must(operations_->prepare_layer());
    must(operations_->prepare_product(matrix_));
  }

  const Projection& matrix() const { return matrix_; }

  // All words of the activation of `tokens` rows of x, in one form.
  std::vector<std::uint32_t> run(const std::vector<float>& x, std::uint32_t tokens, Forms form) {
    const std::uint32_t k = shape_.columns, stride = input_stride(k);
    std::vector<float> rows(std::size_t{stride} * (tokens + input_slack_rows), 1e30f);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      std::copy_n(&x[std::size_t{t} * k], k, &rows[std::size_t{t} * stride]);
    }
    const auto words = [&](std::size_t count) {
      return upload(*device_, std::vector<std::uint32_t>(count, filler));
    };
    const Target& target = operations_->target();
    const Activation in{.rows = upload(*device_, rows),
                        .codes = words(target.code_words(k, tokens)),
                        .bytes = words(target.byte_words(k, tokens))};
    const Forms wanted = operations_->backend().inputs_of(matrix_);
    must(operations_->complete(in, {.rows = true}, wanted, k, tokens));
    const std::size_t row_words = std::size_t{input_stride(shape_.width)} * (tokens + 1);
    const std::size_t code_words = target.code_words(shape_.width, tokens);
    const Activation out{.rows = words(row_words), .codes = words(code_words)};
    const Buffer gate_up = words(std::size_t{matrix_.rows} * tokens);
    must(operations_->gated(in, matrix_, gate_up, out, form, tokens));
    const auto untouched = download<std::uint32_t>(*device_, gate_up, matrix_.rows * tokens);
    touched_ = std::ranges::any_of(untouched, [](std::uint32_t word) { return word != filler; });
    return form.rows ? download<std::uint32_t>(*device_, out.rows, row_words)
                     : download<std::uint32_t>(*device_, out.codes, code_words);
  }
  // Whether the last run wrote gate and up.
  bool touched() const { return touched_; }

 private:
  Shape shape_;
  std::unique_ptr<Device> device_;
  std::unique_ptr<Operations> operations_;
  Projection matrix_;
  bool touched_ = false;
};

std::uint32_t columns_of(TensorType type) {
  return std::max(96u, 2 * traits_of(type).block_elements);
}

class GatedProduct : public ::testing::TestWithParam<TensorType> {};

// Where the device has a matrix unit, its own exponential and reciprocal stand for ours.
bool has_unit() {
  static const bool has = open_device({.variant = "nvidia"})->info().has_matrix_unit();
  return has;
}

// Whether words are those of the parts: bit for bit or, with the device's own functions, floats
// within a few ulp, or halves that at most round to a neighbour.
bool equals_parts(const std::vector<std::uint32_t>& got, const std::vector<std::uint32_t>& want,
                  bool codes) {
  if (!has_unit()) return got == want;
  const auto near = [codes](std::uint32_t a, std::uint32_t b) {
    if (a == b) return true;
    if (!codes) {
      const auto x = std::bit_cast<float>(a), y = std::bit_cast<float>(b);
      return std::fabs(x - y) <= 1e-5f * std::fabs(y) + 1e-30f;
    }
    const auto away = [&](std::uint32_t shift) {
      const auto half = [&](std::uint32_t word) {
        return static_cast<int>(word >> shift & 0x7fff);
      };
      return std::abs(half(a) - half(b));
    };
    return away(0) <= 1 && away(16) <= 1;
  };
  return std::ranges::equal(got, want, near);
}

// Compares with the parts, in the form of codes if the width is whole blocks of them.
void expect_parts(const Shape& shape, const std::vector<std::uint32_t>& units,
                  const std::vector<std::uint32_t>& tokens) {
  const GgufFile file = model_of(shape).file();
  const bool codes = shape.width % block_columns == 0;
  const Forms form{.rows = !codes, .codes = codes};
  const std::vector<float> x =
      Random(3).floats(std::size_t{std::ranges::max(tokens)} * shape.columns, -2, 2);
  Gated parts(file, shape, {.variant = "nvidia"}, false);
  ASSERT_FALSE(parts.matrix().paired);
  for (const std::uint32_t n : tokens) {
    const auto want = parts.run(x, n, form);
    EXPECT_TRUE(parts.touched());
    std::vector<std::uint32_t> first;
    for (const std::uint32_t each : units) {
      Gated gated(file, shape, {.variant = "nvidia", .compute_units = each});
      ASSERT_TRUE(gated.matrix().paired);
      const auto got = gated.run(x, n, form);
      EXPECT_FALSE(gated.touched());
      if (first.empty()) first = got;
      EXPECT_EQ(got, first) << n << " rows, " << each << " units, width " << shape.width;
      EXPECT_TRUE(equals_parts(got, want, codes)) << n << " rows, width " << shape.width;
    }
  }
}

TEST_P(GatedProduct, EqualsItsParts) {
  expect_parts({.type = GetParam(), .columns = columns_of(GetParam()), .width = 96}, {1}, {9});
}

// Devices of one, a few and many units choose different shapes.
TEST(GatedShapes, EqualTheirPartsAndEachOtherAsCodesAndAsRows) {
  const std::uint32_t most = has_unit() ? 250 : 70;
  for (const TensorType type : {TensorType::q8_0, TensorType::bf16}) {
    for (const std::uint32_t width : {96u, 88u}) {
      expect_parts({.type = type, .columns = 96, .width = width}, {1, 3, 1000}, {1, 33, most});
    }
  }
}

TEST(GatedShapes, OfBytesEqualTheirPartsAndEachOther) {
  for (const bool biases : {false, true}) {
    expect_parts({.type = TensorType::q8_0,
                  .columns = 160,
                  .width = biases ? 88u : 96u,
                  .biases = biases,
                  .math = MathMode::int8},
                 {1, 3, 1000}, {1, 33, has_unit() ? 250u : 70u});
  }
}

std::vector<TensorType> types() {
  std::vector<TensorType> out;
  for (const TensorTypeTraits& type : tensor_types()) {
    if (type.type != TensorType::f32) out.push_back(type.type);
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Types, GatedProduct, ::testing::ValuesIn(types()),
                         [](const auto& type) { return std::string(traits_of(type.param).name); });

std::vector<float> values_of(const GgufFile& file, const std::string& name) {
  const Tensor& tensor = *file.find_tensor(name);
  std::vector<float> out(tensor.elements());
  must(dequantize_rows(tensor, 0, tensor.rows(), out));
  return out;
}

double to_half(float value) {
  return static_cast<double>(half_to_float(float_to_half(value)));
}

double activated(Gate gate, double g, double u) {
  if (gate == Gate::silu) return g / (1 + std::exp(-g)) * u;
  if (gate == Gate::gelu) {
    const double v = std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g);
    return g / (1 + std::exp(-2 * v)) * u;
  }
  const double limited = std::min(g, 7.0);
  return limited / (1 + std::exp(-1.702 * limited)) * (std::clamp(u, -7.0, 7.0) + 1);
}

// Halves of a row's codes, in the order of channels.
double code_at(const std::vector<std::uint32_t>& codes, std::uint32_t row, std::uint32_t channel,
               std::uint32_t stride) {
  const std::size_t at = std::size_t{H_VECTOR_AT(row, channel / 8, stride / 4)} * 8 + channel % 8;
  return 16 * static_cast<double>(
                  half_to_float(static_cast<std::uint16_t>(codes[at / 2] >> (at % 2 * 16))));
}

class GateFunction : public ::testing::TestWithParam<Gate> {};

TEST_P(GateFunction, EqualsFloat64WithAndWithoutBiases) {
  constexpr std::uint32_t k = 128, width = 64, tokens = 70;
  const std::vector<float> x = Random(6).floats(std::size_t{tokens} * k, -4, 4);
  for (const bool biases : {false, true}) {
    const Shape shape{.columns = k, .width = width, .gate = GetParam(), .biases = biases};
    const GgufFile file = model_of(shape).file();
    const auto codes =
        Gated(file, shape, {.variant = "nvidia"}).run(x, tokens, {.rows = false, .codes = true});
    const auto gate = values_of(file, "blk.0.ffn_gate.weight");
    const auto up = values_of(file, "blk.0.ffn_up.weight");
    std::vector<float> gate_bias(width), up_bias(width);
    if (biases) {
      gate_bias = values_of(file, "blk.0.ffn_gate.bias");
      up_bias = values_of(file, "blk.0.ffn_up.bias");
    }
    double largest = 0;
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint32_t c = 0; c < width; ++c) {
        double g = static_cast<double>(gate_bias[c]), u = static_cast<double>(up_bias[c]);
        for (std::uint32_t i = 0; i < k; ++i) {
          const double value = 16 * to_half(x[std::size_t{t} * k + i] / 16);
          g += to_half(gate[c * k + i]) * value;
          u += to_half(up[c * k + i]) * value;
        }
        const double want = activated(GetParam(), g, u);
        ASSERT_NEAR(code_at(codes, t, c, code_stride(width, CodeForm::halves)), want,
                    std::fabs(want) / 2000 + 1e-5)
            << "row " << t << ", channel " << c;
        largest = std::max(largest, std::fabs(want));
      }
    }
    EXPECT_GT(largest, 3);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GateFunction,
                         ::testing::Values(Gate::silu, Gate::gelu, Gate::clamped_silu));

// What is not paired takes the way of its parts, and gives the same.
TEST(GatedProductChoice, TypesThatDifferAndExactMathAreNotPaired) {
  const Shape shape{.type = TensorType::q8_0, .columns = 96, .width = 96};
  const std::vector<MatrixPart> parts{{.name = "blk.0.ffn_gate", .rows = 96},
                                      {.name = "blk.0.ffn_up", .rows = 96}};
  const auto paired = [&](const TinyModel& model, const char* variant, MathMode math) {
    const auto device = open_device({.variant = variant});
    const auto backend = make_backend(Target(*device, one_layer({.head_dim = 32}), math));
    const GgufFile file = model.file();
    WeightUploads uploads(*backend, file);
    return must(load_gate_up(*backend, file, parts, 96, uploads)).paired;
  };
  TinyModel model = model_of(shape);
  EXPECT_TRUE(paired(model, "nvidia", MathMode::fast));
  EXPECT_FALSE(paired(model, "nvidia", MathMode::exact));
  EXPECT_FALSE(paired(model, "generic", MathMode::fast));
  model.types["blk.0.ffn_up.weight"] = TensorType::q5_0;
  EXPECT_FALSE(paired(model, "nvidia", MathMode::fast));
  // One format, but two tables.
  model.types = {{"blk.0.ffn_gate.weight", TensorType::mxfp4},
                 {"blk.0.ffn_up.weight", TensorType::iq4_nl}};
  EXPECT_FALSE(paired(model, "nvidia", MathMode::fast));
  model.types["blk.0.ffn_up.weight"] = TensorType::mxfp4;
  EXPECT_TRUE(paired(model, "nvidia", MathMode::fast));
  model.types.clear();  // F32
  EXPECT_FALSE(paired(model, "nvidia", MathMode::fast));
}

// A matrix in several buffers has the channels of each in their places.
TEST(GatedProductChoice, BuffersOfAFewPanelsGiveTheSame) {
  const Shape shape{.type = TensorType::q8_0, .columns = 256, .width = 160};
  const GgufFile file = model_of(shape).file();
  const std::vector<float> x = Random(3).floats(std::size_t{9} * 256, -2, 2);
  Gated whole(file, shape, {.variant = "nvidia"});
  Gated split(file, shape, {.variant = "nvidia", .max_allocation_bytes = 36 << 10});
  EXPECT_EQ(whole.matrix().runs.size(), 1u);
  EXPECT_GT(split.matrix().runs.size(), 2u);
  for (const bool rows : {false, true}) {
    const Forms form{.rows = rows, .codes = !rows};
    EXPECT_EQ(split.run(x, 9, form), whole.run(x, 9, form));
  }
}

}  // namespace
}  // namespace millrace::engine
