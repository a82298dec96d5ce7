#include "engine/core/gguf/dequantize.hpp"

#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "engine/core/gguf/half.hpp"
#include "tests/support/test_files.hpp"
#include "tests/unit/gguf/support.hpp"

namespace millrace::testing {
namespace {

using engine::TensorType;

struct Golden {
  std::vector<std::byte> packed;
  std::vector<std::uint32_t> bits;
};

std::map<std::string, Golden> read_golden() {
  std::map<std::string, Golden> result;
  std::ifstream file(testing_support::source_folder() / "tests/unit/gguf/golden/dequantize.txt");
  std::string line, name, packed, bits;
  while (std::getline(file, line)) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream(line) >> name >> packed >> bits;
    Golden& golden = result[name];
    for (std::size_t i = 0; i + 2 <= packed.size(); i += 2)
      golden.packed.push_back(static_cast<std::byte>(std::stoul(packed.substr(i, 2), nullptr, 16)));
    for (std::size_t i = 0; i + 8 <= bits.size(); i += 8)
      golden.bits.push_back(static_cast<std::uint32_t>(std::stoul(bits.substr(i, 8), nullptr, 16)));
  }
  return result;
}

TEST(Dequantize, EveryTypeEqualsTheGoldenVectorsBitForBit) {
  const auto golden = read_golden();
  for (const auto& traits : engine::tensor_types()) {
    const auto found = golden.find(std::string(traits.name));
    ASSERT_NE(found, golden.end()) << "no golden vector for " << traits.name;
    const auto& [packed, bits] = found->second;
    ASSERT_GE(bits.size(), 8u);
    ASSERT_EQ(packed.size() / traits.block_bytes * traits.block_elements, bits.size());
    std::vector<float> out(bits.size());
    const auto status = engine::dequantize(traits.type, packed, out);
    ASSERT_TRUE(status) << status.error().text();
    for (std::size_t i = 0; i < bits.size(); ++i)
      EXPECT_EQ(std::bit_cast<std::uint32_t>(out[i]), bits[i])
          << traits.name << " element " << i << ": " << out[i] << " wanted "
          << std::bit_cast<float>(bits[i]);
  }
}

TEST(Dequantize, EveryHalfIsExact) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const int exponent = (bits >> 10) & 31, fraction = bits & 1023;
    const float value = engine::half_to_float(static_cast<std::uint16_t>(bits));
    EXPECT_EQ(std::signbit(value), bits >= 0x8000);
    const float size = std::fabs(value);
    if (exponent == 31 && fraction != 0)
      EXPECT_TRUE(std::isnan(value));
    else if (exponent == 31)
      EXPECT_TRUE(std::isinf(value));
    else if (exponent == 0)
      EXPECT_EQ(size, std::ldexp(static_cast<float>(fraction), -24));
    else
      EXPECT_EQ(size, std::ldexp(static_cast<float>(1024 + fraction), exponent - 25));
  }
}

// Checks the rounding between all neighbours of a 16-bit format, of both signs, below `infinity`.
template <class ToFloat, class FromFloat>
void expect_rounding_to_even(std::uint16_t infinity, ToFloat to_float, FromFloat from_float) {
  const auto bits = [](std::uint32_t value) { return static_cast<std::uint16_t>(value); };
  for (std::uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
    for (std::uint32_t low = 0; low + 1 < infinity; ++low) {
      const float from = to_float(bits(sign | low)), to = to_float(bits(sign | (low + 1)));
      const float middle = from + (to - from) / 2;
      ASSERT_EQ(from_float(from), sign | low);
      ASSERT_EQ(from_float(middle), sign | (low + low % 2)) << middle;
      ASSERT_EQ(from_float(std::nextafter(middle, from)), sign | low) << middle;
      ASSERT_EQ(from_float(std::nextafter(middle, to)), sign | (low + 1)) << middle;
    }
  }
  EXPECT_EQ(from_float(to_float(infinity)), infinity);
  EXPECT_TRUE(std::isnan(to_float(from_float(std::nanf("1")))));
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  expect_rounding_to_even(0x7c00, engine::half_to_float, engine::float_to_half);
  EXPECT_EQ(engine::float_to_half(65519.99f), 0x7bff);
  EXPECT_EQ(engine::float_to_half(65520.0f), 0x7c00);
  EXPECT_EQ(engine::float_to_half(3e38f), 0x7c00);
}

TEST(Bfloat16, RoundsToTheNearestAndTiesToEven) {
  expect_rounding_to_even(0x7f80, engine::bfloat16_to_float, engine::float_to_bfloat16);
}

TEST(Dequantize, TakesRowsOfATensor) {
  const auto file = parse(tiny_file().build());
  ASSERT_TRUE(file);
  const auto* tensor = file->find_tensor("token_embd.weight");
  std::vector<float> all(64 * 3), middle(64);
  ASSERT_TRUE(engine::dequantize_rows(*tensor, 0, 3, all));
  ASSERT_TRUE(engine::dequantize_rows(*tensor, 1, 1, middle));
  const auto bits = [](float x) { return std::bit_cast<std::uint32_t>(x); };
  for (std::size_t i = 0; i < 64; ++i) EXPECT_EQ(bits(middle[i]), bits(all[64 + i]));
  EXPECT_FALSE(engine::dequantize_rows(*tensor, 3, 1, middle));
  EXPECT_FALSE(engine::dequantize_rows(*tensor, ~0ull, 2, middle));
  EXPECT_FALSE(engine::dequantize_rows(*tensor, 0, 2, middle));  // out holds one row
  EXPECT_FALSE(engine::dequantize(TensorType::q8_0, tensor->data.first(33), middle));
}

}  // namespace
}  // namespace millrace::testing
