// Encoders beside the decoder of the same types, on blocks that real weights seldom make.
#include "engine/core/convert/encode.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/core/convert/pack.hpp"
#include "engine/core/gguf/dequantize.hpp"
#include "tests/support/device.hpp"

namespace millrace::testing {
namespace {

using engine::TensorType;

std::vector<TensorType> encodable() {
  std::vector<TensorType> types;
  for (const auto& traits : engine::tensor_types())
    if (engine::can_encode(traits.type)) types.push_back(traits.type);
  return types;
}

std::string name_of(TensorType type) {
  return std::string(engine::traits_of(type).name);
}

// Encodes and decodes.
std::vector<float> through(TensorType type, const std::vector<float>& values) {
  const auto& traits = engine::traits_of(type);
  std::vector<std::byte> packed(values.size() / traits.block_elements * traits.block_bytes);
  const auto encoded = engine::encode(type, values, packed);
  EXPECT_TRUE(encoded) << encoded.error().text();
  std::vector<float> decoded(values.size());
  EXPECT_TRUE(engine::dequantize(type, packed, decoded));
  return decoded;
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
  double squares = 0;
  for (std::size_t i = 0; i < a.size(); ++i) squares += std::pow(double{a[i]} - double{b[i]}, 2);
  return std::sqrt(squares / static_cast<double>(a.size()));
}

TEST(Pack, IsTheInverseOfUnpacking) {
  for (const TensorType type : encodable()) {
    const auto* const traits = engine::find_quant_traits(type);
    if (traits == nullptr) continue;
    ASSERT_TRUE(engine::can_pack(type));
    Random random(static_cast<std::uint64_t>(type));
    for (int round = 0; round < 50; ++round) {
      engine::CodedBlock block;
      const bool three = type == TensorType::q3_k;  // three bits within four, see pack.cpp
      const std::uint32_t codes = three ? 8 : 1u << traits->bits, first = three ? 4 : 0;
      for (auto& code : block.codes) code = static_cast<std::uint8_t>(first + random.below(codes));
      const bool affine = traits->affine, q6 = type == TensorType::q6_k;
      const int top = type == TensorType::q2_k ? 16 : 64, low = affine ? 0 : q6 ? -128 : -32;
      for (auto& step : block.steps)
        step = static_cast<std::int8_t>(low + static_cast<int>(random.below(q6 ? 256 : top)));
      for (auto& step : block.minimum_steps)
        step = static_cast<std::int8_t>(random.below(static_cast<std::uint32_t>(top)));
      block.scale = 0x3c00;  // 1
      block.minimum = 0x4000;
      block.exponent = 128;
      std::vector<std::byte> bytes(engine::traits_of(type).block_bytes, std::byte{0xff});
      engine::pack_block(*traits, block, bytes.data());
      engine::QuantBlock back;
      engine::unpack_block(*traits, bytes.data(), back);
      const std::uint32_t elements = engine::traits_of(type).block_elements;
      for (std::uint32_t i = 0; i < elements; ++i)
        ASSERT_EQ(back.codes[i], block.codes[i]) << name_of(type) << " code " << i;
      const bool stepped = traits->scales == engine::ScaleForm::steps || type == TensorType::iq4_xs;
      for (std::uint32_t g = 0; g < elements / traits->group_elements; ++g) {
        ASSERT_EQ(back.scales[g], stepped ? static_cast<float>(block.steps[g]) : 1)
            << name_of(type) << " group " << g;
        const auto minimum = static_cast<float>(block.minimum_steps[g]);
        const float wanted = stepped ? -2 * minimum : 2;
        EXPECT_TRUE(!affine || back.minimums[g] == wanted) << name_of(type) << " group " << g;
      }
    }
  }
}

TEST(Encode, ZerosStayZeros) {
  for (const TensorType type : encodable()) {
    const std::vector<float> zeros(512, 0.0f);
    EXPECT_EQ(distance(through(type, zeros), zeros), 0) << name_of(type);
  }
}

// The largest relative error of a block's root mean square for uniform values, some above theory.
double tolerance(TensorType type) {
  switch (engine::find_quant_traits(type) == nullptr ? 16 : engine::find_quant_traits(type)->bits) {
    case 16:
      return 0.003;
    case 8:
      return 0.006;
    case 6:
      return 0.025;
    case 5:
      return 0.045;
    case 2:
      return 0.31;
    default:
      return type == TensorType::q3_k ? 0.19 : type == TensorType::mxfp4 ? 0.15 : 0.09;
  }
}

TEST(Encode, BlocksOfEverySizeAndSignComeOutClose) {
  Random random(7);
  for (const TensorType type : encodable()) {
    for (const float size : {1e-3f, 1.0f, 3e4f}) {
      for (const auto& [low, high] : {std::pair{-1.0f, 1.0f}, {0.5f, 1.0f}, {-1.0f, -0.2f}}) {
        const auto values = random.floats(1024, low * size, high * size);
        const std::vector<float> zeros(values.size(), 0.0f);
        EXPECT_LT(distance(through(type, values), values) / distance(values, zeros),
                  tolerance(type))
            << name_of(type) << " from " << low * size << " to " << high * size;
      }
    }
  }
}

TEST(Encode, AnOutlierIsKept) {
  for (const TensorType type : encodable()) {
    for (const float outlier : {50.0f, -50.0f}) {
      std::vector<float> values = Random(3).floats(256, -0.01f, 0.01f);
      values[77] = outlier;
      const float kept = through(type, values)[77];
      EXPECT_NEAR(kept, outlier, 2.5f) << name_of(type);
    }
  }
}

TEST(Encode, TheLargestValuesStayFinite) {
  for (const TensorType type : encodable()) {
    const float most = engine::largest_value(type);
    for (const float sign : {1.0f, -1.0f}) {
      std::vector<float> values(256, sign * most);
      values[0] = -sign * most;
      for (const float value : through(type, values)) EXPECT_TRUE(std::isfinite(value));
    }
  }
}

// Values that blocks of a type stand for are on the type's own lattice: a second encoding finds it
// again, so that a file which was decoded loses nothing but the rounding of the decoded numbers.
TEST(Encode, DecodedBlocksAreFoundAgain) {
  for (const TensorType type : encodable()) {
    const auto once = through(type, Random(11).floats(64 * 256, -0.1f, 0.1f));
    const std::vector<float> zeros(once.size(), 0.0f);
    const double off = distance(through(type, once), once) / distance(once, zeros);
    EXPECT_LT(off, tolerance(type) / 15) << name_of(type);
  }
}

TEST(Encode, SizesThatDoNotFitAreRefused) {
  std::vector<float> values(256);
  std::vector<std::byte> out(144);
  EXPECT_TRUE(engine::encode(TensorType::q4_k, values, out));
  EXPECT_FALSE(engine::encode(TensorType::q4_k, values, std::span(out).first(143)));
  EXPECT_FALSE(engine::encode(TensorType::q4_k, std::span(values).first(255), out));
}

TEST(Encode, TypesWithoutAnEncoderAreRefused) {
  for (const TensorType type : {TensorType::iq2_xxs, TensorType::iq3_s, TensorType::nvfp4}) {
    EXPECT_FALSE(engine::can_encode(type));
    std::vector<std::byte> out(engine::traits_of(type).block_bytes);
    const std::vector<float> values(engine::traits_of(type).block_elements);
    const auto status = engine::encode(type, values, out);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, Code::internal);
    EXPECT_NE(status.error().message.find(name_of(type)), std::string::npos);
  }
}

}  // namespace
}  // namespace millrace::testing
