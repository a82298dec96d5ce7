// Compares norm, activation, rotation with the KV write, and embedding with float64.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "engine/core/gguf/half.hpp"
#include "engine/core/kv/policy.hpp"
#include "engine/core/model/backend/pack.hpp"
#include "engine/core/model/kv_program.hpp"
#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

// Finds the nearest half by search, ties to even: slow, but independent of any conversion code.
std::uint16_t nearest_half(float value) {
  const double wanted = std::min(65504.0, std::max(-65504.0, static_cast<double>(value)));
  std::uint16_t low = 0, high = 0x7bff;
  const double size = std::fabs(wanted);
  while (high - low > 1) {
    const auto middle = static_cast<std::uint16_t>((low + high) / 2);
    (half_to_float(middle) <= size ? low : high) = middle;
  }
  const double below = size - half_to_float(low), above = half_to_float(high) - size;
  const std::uint16_t best = below < above || (below == above && (low & 1) == 0) ? low : high;
  return static_cast<std::uint16_t>(best | (std::signbit(value) ? 0x8000 : 0));
}

// The parameter is the number of work-items per row, for wide vectors and for narrow lanes.
class RowItems : public ::testing::TestWithParam<std::uint32_t> {
 protected:
  Program build(Device& device, const char* source, std::vector<std::string> defines = {}) const {
    defines.push_back("ROW_ITEMS=" + std::to_string(GetParam()));
    return must(device.build({.name = "rows", .sources = {source}, .defines = std::move(defines)}));
  }
  Grid rows_grid(std::size_t count) const { return {.groups = {count}, .local = {GetParam()}}; }
};
INSTANTIATE_TEST_SUITE_P(Kernels, RowItems, ::testing::Values(1u, 32u));

TEST_P(RowItems, NormEqualsFloat64WithAndWithoutGather) {
  const auto device = open_device();
  const Program program = build(*device, "norm/rms.cl");
  Kernel kernel = must(device->kernel(program, "rms_norm"));
  Random random(1);
  for (const std::uint32_t width : {5u, 16u, 64u, 576u}) {
    const std::uint32_t padded = round_up(width, 16), stride = padded + 16, rows = 7;
    std::vector<float> x(std::size_t{stride} * rows), weight(padded);
    for (std::uint32_t i = 0; i < width; ++i) weight[i] = random.uniform(-2, 2);
    for (std::uint32_t r = 0; r < rows; ++r) {
      for (std::uint32_t i = 0; i < width; ++i) x[r * stride + i] = random.uniform(-9, 9);
    }
    const std::vector<std::uint32_t> step{0, 0, 6, 2, 2};  // rows 6, 2, 2 from word 2 on
    for (const bool gather : {false, true}) {
      const Buffer in = upload(*device, x), w = upload(*device, weight), s = upload(*device, step);
      const Buffer out = upload(*device, std::vector<float>(x.size(), -1.0f));
      const std::uint32_t count = gather ? 3 : rows;
      must(device->launch(kernel, rows_grid(count),
                          {in, w, out, s, 2u, gather ? 1u : 0u, padded / 16, stride, stride,
                           1.0f / static_cast<float>(width), 1e-5f}));
      const auto got = download<float>(*device, out, x.size());
      for (std::uint32_t i = 0; i < count; ++i) {
        const float* const row = &x[(gather ? step[2 + i] : i) * stride];
        double sum = 0;
        for (std::uint32_t k = 0; k < width; ++k) sum += static_cast<double>(row[k]) * row[k];
        const double scale = 1 / std::sqrt(sum / width + 1e-5);
        for (std::uint32_t k = 0; k < padded; ++k) {
          const double want = k < width ? row[k] * scale * weight[k] : 0.0;
          ASSERT_NEAR(got[i * stride + k], want, 1e-6 * (1 + std::fabs(want)));
        }
      }
    }
  }
}

// The gate functions by their definitions, in the order of GATE (kernels/activation/gated.cl).
double activated(int gate_function, double gate, double up) {
  if (gate_function == 0) return gate / (1 + std::exp(-gate)) * up;
  if (gate_function == 1) {
    const double v = std::sqrt(2 / std::acos(-1.0)) * (gate + 0.044715 * gate * gate * gate);
    // (1 + tanh(v)) / 2 without the cancellation of the sum
    return gate / (1 + std::exp(-2 * v)) * up;
  }
  const double g = std::min(gate, 7.0), u = std::clamp(up, -7.0, 7.0);
  return g / (1 + std::exp(-1.702 * g)) * (u + 1);
}

TEST_P(RowItems, GateFunctionsEqualFloat64AlsoForLargeInputs) {
  const auto device = open_device();
  const std::uint32_t blocks = 3, width = 48, stride = 80, tokens = 4;
  Random random(2);
  auto x = random.floats(std::size_t{2} * width * tokens, -20, 20);
  for (std::uint32_t i = 0; i < width; i += 2) x[i] = random.uniform(-4, 4);
  x[0] = 500;
  x[1] = -500;
  x[2] = 0;
  x[3] = 7.5f;
  x[width + 3] = -7.5f;
  x[4] = 1e15f;  // its cube is beyond the range of floats
  x[5] = -1e15f;
  x[6] = NAN;
  x[width + 7] = NAN;
  const Buffer in = upload(*device, x);
  for (const int gate_function : {0, 1, 2}) {
    SCOPED_TRACE("GATE " + std::to_string(gate_function));
    const Program program =
        build(*device, "activation/gated.cl", {"GATE=" + std::to_string(gate_function)});
    Kernel kernel = must(device->kernel(program, "gated_mul"));
    const Buffer out = upload(*device, std::vector<float>(stride * tokens));
    must(device->launch(kernel, rows_grid(tokens), {in, out, blocks, stride}));
    const auto got = download<float>(*device, out, stride * tokens);
    for (std::uint32_t t = 0; t < tokens; ++t) {
      for (std::uint32_t i = 0; i < width; ++i) {
        const float gate = x[t * 2 * width + i], up = x[t * 2 * width + width + i];
        if (std::isnan(gate) || std::isnan(up)) {
          ASSERT_TRUE(std::isnan(got[t * stride + i])) << gate << ", " << up;
          continue;
        }
        // The exponent, which is rounded and limited to 80, makes the error of gelu and of results
        // that are far below their inputs.
        const double want = activated(gate_function, gate, up);
        const double error = gate_function == 0 ? 1e-6 : 2e-5;
        ASSERT_NEAR(got[t * stride + i], want,
                    error * std::fabs(want) + 2e-35 * std::fabs(double{gate} * up))
            << gate << ", " << up;
      }
    }
  }
}

// Near zero, where activations are, gelu is as exact as silu.
TEST_P(RowItems, GeluIsExactNearZero) {
  const auto device = open_device();
  const Program program = build(*device, "activation/gated.cl", {"GATE=1"});
  Kernel kernel = must(device->kernel(program, "gated_mul"));
  std::vector<float> x(32, 1.0f);
  for (int i = 0; i < 16; ++i) x[i] = static_cast<float>(i - 8) * 0.37f;
  const Buffer in = upload(*device, x), out = upload(*device, std::vector<float>(16));
  must(device->launch(kernel, rows_grid(1), {in, out, 1u, 16u}));
  const auto got = download<float>(*device, out, 16);
  for (int i = 0; i < 16; ++i) {
    const double g = x[i], want = activated(1, g, 1);
    const double tanh_form =
        g / 2 * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (g + 0.044715 * g * g * g)));
    ASSERT_NEAR(want, tanh_form, 1e-14);
    ASSERT_NEAR(got[i], want, 1e-6 * std::fabs(want)) << g;
  }
}

struct RopeCase {
  std::uint32_t head_dim, heads, kv_heads, rope_dim, halves;
  bool centered = false;
};

class RopeTest : public ::testing::TestWithParam<RopeCase> {};

struct RopeRun {
  std::vector<float> turned;
  std::vector<std::uint16_t> stored;
};

// `step` holds four positions, the offsets of their page tables, a tile of all four tokens, and the
// table.
RopeRun rotate(const std::string& family, const RopeCase& shape, const std::vector<float>& qkv,
               const std::vector<float>& table, const std::vector<float>& means,
               const std::vector<std::uint32_t>& step, std::size_t halves) {
  const auto device = open_device({.variant = family});
  const std::uint32_t k_row = shape.heads * shape.head_dim;
  const std::uint32_t v_row = k_row + shape.kv_heads * shape.head_dim;
  const std::uint32_t stride = v_row + shape.kv_heads * shape.head_dim;
  const auto number = [](const char* name, std::uint32_t value) {
    return std::string(name) + "=" + std::to_string(value);
  };
  ProgramSpec spec{.name = "rope",
                   .sources = {"rope/" + family + ".cl"},
                   .defines = {number("HEAD_DIM", shape.head_dim), number("HEADS", shape.heads),
                               number("KV_HEADS", shape.kv_heads), number("K_ROW", k_row),
                               number("V_ROW", v_row), number("ROPE_DIM", shape.rope_dim),
                               number("ROPE_HALVES", shape.halves)}};
  constexpr std::uint32_t row_items = 32;
  const bool cpu = device->family() == Family::cpu;
  add_kv_defines(spec, {.key = {}, .value = {}, .centered = shape.centered}, shape.head_dim,
                 MathMode::exact);
  if (!cpu) {
    spec.defines.push_back(number("ROW_ITEMS", row_items));
    spec.defines.emplace_back("ATOMIC_VALUES=1");
  }
  const Program program = must(device->build(spec));
  Kernel kernel = must(device->kernel(program, "rope_kv"));
  const Buffer x = upload(*device, qkv), rope = upload(*device, table);
  const Buffer mean = shape.centered ? upload(*device, means) : Buffer();
  const Buffer kv = upload(*device, std::vector<std::uint16_t>(halves, 0x1234));
  const Buffer words = upload(*device, step);
  if (cpu) {
    must(device->launch(kernel, {}, {x, rope, mean, kv, words, 0u, 4u, 8u, stride}));
  } else {
    must(device->launch(kernel, {.groups = {shape.heads + shape.kv_heads, 4}, .local = {row_items}},
                        {x, rope, mean, kv, words, 0u, 4u, stride}));
  }
  return {download<float>(*device, x, qkv.size()), download<std::uint16_t>(*device, kv, halves)};
}

TEST_P(RopeTest, RotatesAndStoresRoundedHalves) {
  const auto& [dim, heads, kv_heads, rope_dim, halves, centered] = GetParam();
  const std::uint32_t k_row = heads * dim, v_row = k_row + kv_heads * dim;
  const std::uint32_t stride = v_row + kv_heads * dim;
  Random random(dim + halves);
  // The positions lie in two segments.
  const std::vector<std::uint32_t> positions{0, 15, 16, 293};
  const std::uint32_t tokens = 4, pages = 5;
  auto qkv = random.floats(std::size_t{stride} * tokens, -3, 3);
  qkv[k_row] = 1e6f;  // beyond the range of halves
  qkv[v_row + 1] = -1e6f;
  qkv[v_row + 2] = 3e-6f;  // a subnormal half
  std::vector<float> table(300 * rope_dim);
  for (std::uint32_t i = 0; i < table.size() / 2; ++i) {
    const float angle = random.uniform(-3, 3);
    table[2 * i] = std::cos(angle);
    table[2 * i + 1] = std::sin(angle);
  }
  // [segments][kv_heads][dim]
  const auto means = random.floats(std::size_t{2} * kv_heads * dim, -3, 3);
  // positions, table offsets, a tile, then a page table in which position 0.. is page 3, 1, 4, and
  // position 288.. again 4
  std::vector<std::uint32_t> step(positions);
  step.insert(step.end(), {10, 10, 10, 10, 0, 4, 3, 1});
  step.resize(10 + 300 / 16 + 1, 4);
  const std::size_t page_halves = std::size_t{2} * 16 * dim * kv_heads;
  const auto [turned, stored] =
      rotate("generic", GetParam(), qkv, table, means, step, page_halves * pages);
  if (testing::has_cpu_family()) {
    const RopeRun cpu = rotate("cpu", GetParam(), qkv, table, means, step, page_halves * pages);
    EXPECT_EQ(cpu.stored, stored);
    EXPECT_EQ(cpu.turned, qkv);  // attention rotates the queries of the cpu family
  }

  const auto expected = [&](std::uint32_t t, std::uint32_t head_row, std::uint32_t d) -> double {
    const float* const head = &qkv[t * stride + head_row];
    if (d >= rope_dim) return head[d];
    const std::uint32_t half = rope_dim / 2;
    const std::uint32_t i = halves != 0 ? d % half : d / 2;
    const bool second = halves != 0 ? d >= half : d % 2 == 1;
    const double a = head[halves != 0 ? i : 2 * i], b = head[halves != 0 ? i + half : 2 * i + 1];
    const double cosine = table[(positions[t] * half + i) * 2];
    const double sine = table[(positions[t] * half + i) * 2 + 1];
    return second ? a * sine + b * cosine : a * cosine - b * sine;
  };
  for (std::uint32_t t = 0; t < tokens; ++t) {
    for (std::uint32_t row = 0; row < v_row; ++row) {
      double want = expected(t, row / dim * dim, row % dim);
      if (centered && row >= k_row) {  // the kernel also centers keys in place
        const std::size_t segment = positions[t] / 256;
        want -= static_cast<double>(means[segment * kv_heads * dim + row - k_row]);
      }
      ASSERT_NEAR(turned[t * stride + row], want, 1e-6 * (1 + std::fabs(want)));
    }
    const std::uint32_t page = step[10 + positions[t] / 16], slot = positions[t] % 16;
    for (std::uint32_t g = 0; g < kv_heads; ++g) {
      for (std::uint32_t d = 0; d < dim; ++d) {
        const std::size_t base = page * page_halves + g * std::size_t{32} * dim;
        ASSERT_EQ(stored[base + d * 16 + slot],
                  nearest_half(turned[t * stride + k_row + g * dim + d]));
        ASSERT_EQ(stored[base + 16 * dim + slot * dim + d],
                  nearest_half(qkv[t * stride + v_row + g * dim + d]));
      }
    }
  }
  // The kernel wrote nothing else: the 4 tokens lie in pages 3 (two of them), 1 and 4.
  const auto untouched = std::ranges::count(stored, 0x1234);
  EXPECT_GE(untouched,
            static_cast<std::ptrdiff_t>(stored.size() - std::size_t{8} * dim * kv_heads));
}

INSTANTIATE_TEST_SUITE_P(Cases, RopeTest,
                         ::testing::Values(RopeCase{64, 9, 3, 64, 0}, RopeCase{32, 2, 2, 16, 0},
                                           RopeCase{64, 4, 1, 64, 1}, RopeCase{48, 2, 1, 32, 1},
                                           RopeCase{80, 2, 1, 40, 0}, RopeCase{80, 2, 1, 80, 1},
                                           RopeCase{64, 4, 2, 32, 1, true}));

TEST(Embed, TakesIdsFromHostOrDeviceAndLeavesOtherRowsAlone) {
  const auto device = open_device();
  const std::uint32_t rows = 40, width = 20, stride = 64;
  const PanelLayout layout{format_of(TensorType::f32), width};
  Random random(4);
  const auto values = random.floats(std::size_t{rows} * width, -1, 1);
  Tensor tensor;
  tensor.type = TensorType::f32;
  tensor.rank = 2;
  tensor.shape = {width, rows, 1, 1};
  tensor.data = std::as_bytes(std::span(values));
  std::vector<std::byte> packed(3 * layout.panel_bytes());
  for (std::uint32_t p = 0; p < 3; ++p) {
    pack_panel(layout, tensor, p,
               std::span(packed).subspan(p * layout.panel_bytes(), layout.panel_bytes()));
  }
  std::vector<std::string> defines = layout.defines();
  defines.push_back("WIDTH=20");
  const Program program = must(device->build(
      {.name = "embed", .sources = {"embed/embed.cl"}, .defines = std::move(defines)}));
  Kernel kernel = must(device->kernel(program, "embed"));
  constexpr std::uint32_t none = 0xffffffffu;
  // ids 3, (slot 1), (slot 0: outside), 39, then their slots
  const std::vector<std::uint32_t> step{3, 0, 0, 39, none, 1, 0, none};
  const Buffer weight = upload(*device, packed), words = upload(*device, step);
  const Buffer ids = upload(*device, std::vector<std::uint32_t>{1000000, 17});
  const Buffer out = upload(*device, std::vector<float>(4 * stride, -5.0f));
  // Two launches, as for a matrix in two buffers: rows 0..15, then 16..47 of the vocabulary.
  must(device->launch(kernel, {.groups = {4}},
                      {weight, words, ids, out, 0u, 4u, 0u, 16u, rows, stride, 1.0f}));
  const auto half_done = download<float>(*device, out, 4 * stride);
  EXPECT_EQ(half_done[stride], -5.0f);  // id 17 is not in the first 16 rows
  const Buffer second =
      upload(*device,
             std::vector<std::byte>(
                 packed.begin() + static_cast<std::ptrdiff_t>(layout.panel_bytes()), packed.end()));
  must(device->launch(kernel, {.groups = {4}},
                      {second, words, ids, out, 0u, 4u, 16u, 32u, rows, stride, 1.0f}));
  const auto got = download<float>(*device, out, 4 * stride);
  const std::vector<std::uint32_t> want{3, 17, 0, 39};
  for (std::uint32_t t = 0; t < 4; ++t) {
    for (std::uint32_t k = 0; k < width; ++k) {
      EXPECT_EQ(got[t * stride + k], values[want[t] * width + k]);
    }
    EXPECT_EQ(got[t * stride + width], -5.0f);
  }
}

// Shows that oclgrind detects such a write (test_oclgrind.py); elsewhere the behaviour is
// undefined.
TEST(Planted, DISABLED_WritesOutsideItsBuffer) {
  const auto device = open_device();
  const Program program = must(device->build(
      {.name = "planted", .text = "__kernel void f(__global int* x) { x[100] = 1; }"}));
  Kernel kernel = must(device->kernel(program, "f"));
  const Buffer x = must(device->allocate(64, "x"));
  must(device->launch(kernel, {}, {x}));
  must(device->finish());
}

}  // namespace
}  // namespace millrace::engine
