// Compares the functions of kernels/common/math.cl with float64, and their scalar and vector
// forms with each other bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>

#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using testing::download;
using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

constexpr const char* text = R"(
#include "common/math.cl"

__kernel void scalar_form(__global const float* x, __global float* y) {
  const size_t i = get_global_id(0);
  y[i] = FUNCTION(x[i]);
}
__kernel void vector_form(__global const float* x, __global float* y) {
  const size_t i = get_global_id(0);
  vstore16(FUNCTION16(vload16(i, x)), i, y);
}
__kernel void sums(__global const float* x, __global float* y) {
  y[0] = mr_sum16(vload16(0, x));
  y[1] = mr_max16(vload16(0, x));
}
)";

struct Results {
  std::vector<float> scalar_form, vector_form;
};

Results evaluate(const std::string& name, const std::vector<float>& x,
                 const std::vector<SourcePart>& sources = {}) {
  const auto device = open_device();
  const Program program =
      must(device->build({.name = "math",
                          .sources = sources,
                          .defines = {"FUNCTION=" + name, "FUNCTION16=" + name + "16"},
                          .text = text}));
  const Buffer input = upload(*device, x);
  const Buffer output = must(device->allocate(x.size() * sizeof(float), "y"));
  Results out;
  Kernel scalar = must(device->kernel(program, "scalar_form"));
  must(device->launch(scalar, {.groups = {x.size()}}, {input, output}));
  out.scalar_form = download<float>(*device, output, x.size());
  Kernel vector = must(device->kernel(program, "vector_form"));
  must(device->launch(vector, {.groups = {x.size() / 16}}, {input, output}));
  out.vector_form = download<float>(*device, output, x.size());
  return out;
}

double ulps(float got, double want) {
  const double unit = std::ldexp(1.0, std::max(-126, std::ilogb(want)) - 23);
  return std::fabs(got - want) / unit;
}

void check(const std::string& name, const std::vector<float>& x, double most_ulps,
           const std::function<double(double)>& truth,
           const std::vector<SourcePart>& sources = {}) {
  const Results results = evaluate(name, x, sources);
  for (std::size_t i = 0; i < x.size(); ++i) {
    ASSERT_EQ(std::bit_cast<std::uint32_t>(results.scalar_form[i]),
              std::bit_cast<std::uint32_t>(results.vector_form[i]))
        << name << "(" << x[i] << ")";
    ASSERT_LE(ulps(results.scalar_form[i], truth(x[i])), most_ulps) << name << "(" << x[i] << ")";
  }
}

std::vector<float> geometric(float low, float high, std::size_t count) {
  Random random(3);
  std::vector<float> out(count);
  for (float& x : out) x = std::exp(random.uniform(std::log(low), std::log(high)));
  return out;
}

constexpr std::size_t points = 16 * 4096;

TEST(KernelMath, Exp) {
  check("mr_exp", Random(1).floats(points, -87.0f, 88.0f), 1.5,
        [](double x) { return std::exp(x); });
  check("mr_exp", Random(2).floats(points, -1.0f, 1.0f), 1.5, [](double x) { return std::exp(x); });
}

TEST(KernelMath, ExpAtTheEnds) {
  std::vector<float> x(16, 0.0f);
  x[1] = -INFINITY;
  x[2] = -1000.0f;
  x[3] = -88.0f;
  x[4] = 89.0f;
  x[5] = INFINITY;
  const Results got = evaluate("mr_exp", x);
  EXPECT_EQ(got.scalar_form, got.vector_form);
  EXPECT_EQ(got.scalar_form[0], 1.0f);
  for (int i = 1; i <= 3; ++i) EXPECT_EQ(std::bit_cast<std::uint32_t>(got.scalar_form[i]), 0u);
  EXPECT_EQ(got.scalar_form[4], INFINITY);
  EXPECT_EQ(got.scalar_form[5], INFINITY);
}

TEST(KernelMath, Log) {
  check("mr_log", geometric(1e-37f, 1e37f, points), 2.0, [](double x) { return std::log(x); });
  EXPECT_EQ(evaluate("mr_log", std::vector<float>(16, 1.0f)).scalar_form[0], 0.0f);
}

TEST(KernelMath, Reciprocal) {
  check("mr_recip", geometric(1e-37f, 1e37f, points), 1.0, [](double x) { return 1 / x; });
}

TEST(KernelMath, ReciprocalSquareRoot) {
  check("mr_rsqrt", geometric(1e-37f, 1e37f, points), 2.0,
        [](double x) { return 1 / std::sqrt(x); });
}

TEST(KernelMath, SoftCap) {
  const std::vector<SourcePart> source{{"common/cap.cl", {"SOFT_CAP=30.0f"}}};
  const auto truth = [](double x) { return 30 * std::tanh(x / 30); };
  check("mr_capped", Random(4).floats(points, -300.0f, 300.0f), 5.0, truth, source);
  std::vector<float> small = geometric(1e-30f, 10.0f, points);
  for (std::size_t i = 0; i < points; i += 2) small[i] = -small[i];
  check("mr_capped", small, 5.0, truth, source);
  std::vector<float> ends(16, 0.0f);
  ends[1] = 1e30f;
  ends[2] = -INFINITY;
  const Results got = evaluate("mr_capped", ends, source);
  EXPECT_EQ(got.scalar_form, got.vector_form);
  EXPECT_EQ(got.scalar_form[0], 0.0f);
  EXPECT_EQ(got.scalar_form[1], 30.0f);
  EXPECT_EQ(got.scalar_form[2], -30.0f);
}

TEST(KernelMath, FoldsAreOneFixedTree) {
  const auto device = open_device();
  const Program program = must(device->build(
      {.name = "math", .defines = {"FUNCTION=mr_exp", "FUNCTION16=mr_exp16"}, .text = text}));
  Kernel kernel = must(device->kernel(program, "sums"));
  Random random(5);
  for (int round = 0; round < 100; ++round) {
    std::vector<float> x = random.floats(16, -1e3f, 1e3f);
    const Buffer input = upload(*device, x);
    const Buffer output = must(device->allocate(8, "y"));
    must(device->launch(kernel, {}, {input, output}));
    const auto got = download<float>(*device, output, 2);
    EXPECT_EQ(got[1], *std::ranges::max_element(x));
    for (std::size_t half = 8; half > 0; half /= 2) {
      for (std::size_t i = 0; i < half; ++i) x[i] = x[i] + x[i + half];
    }
    EXPECT_EQ(got[0], x[0]);
  }
}

}  // namespace
}  // namespace millrace::engine
