// Figures computed by hand, and the codecs that follow from them.
#include "engine/core/kv/outliers.hpp"

#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/random_blocks.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t dim = 64;
constexpr KvCodec r4{CodecKind::rotated, 4, 0}, r8{CodecKind::rotated, 8, 0};
constexpr KvCodec f32{CodecKind::plain, 32, 0};
constexpr KvCodec q4{CodecKind::affine, 4, 64}, q8{CodecKind::affine, 8, 64};

// One key in one head; own is 1 in each channel.
LayerKeys one_key(std::vector<float> key) {
  key.resize(dim);
  return {{std::move(key), dim}};
}

TEST(KeyOutliers, FiguresFollowTheNormAndTheRange) {
  const LayerKeys spike = one_key({80});
  EXPECT_DOUBLE_EQ(outlier_figure(r4, spike, dim), 10);  // 80 / sqrt(64)
  EXPECT_DOUBLE_EQ(outlier_figure(r8, spike, dim), 10);  // the number of bits does not matter
  EXPECT_NEAR(outlier_figure(q4, spike, dim), 80 / std::sqrt(22.38), 1e-9);
  // One of the two groups of 32 is all zeros.
  EXPECT_NEAR(outlier_figure({CodecKind::affine, 4, 32}, spike, dim), 80 / std::sqrt(2 * 17.61),
              1e-9);
  EXPECT_EQ(outlier_figure({}, spike, dim), 0);
  EXPECT_EQ(outlier_figure(r4, {}, dim), 0);           // nothing is known of the layer
  EXPECT_EQ(outlier_figure(r4, one_key({}), dim), 0);  // all keys are zeros
  // Equal channels have a range of zero, which does not coarsen a scale.
  const LayerKeys flat = one_key(std::vector<float>(dim, 10));
  EXPECT_DOUBLE_EQ(outlier_figure(r4, flat, dim), 10);
  EXPECT_EQ(outlier_figure(q4, flat, dim), 0);
  // Keys that are all the same do not tell tokens apart.
  EXPECT_TRUE(std::isinf(outlier_figure(r4, {{{std::vector<float>(dim, 1)}, 0}}, dim)));
}

TEST(KeyOutliers, AnOrdinaryKeyHasAFigureOfOne) {
  millrace::testing::Random random(3);
  HeadKeys head{{}, dim};
  for (std::uint32_t i = 0; i < 500 * dim; ++i) {
    float normal = -6;  // a sum of twelve is near enough to normal
    for (int j = 0; j < 12; ++j) normal += random.uniform(0.0f, 1.0f);
    head.keys.push_back(normal);
  }
  for (const KvCodec& codec : {r4, q4, KvCodec{CodecKind::affine, 4, 32}}) {
    EXPECT_NEAR(outlier_figure(codec, {head}, dim), 1, 0.03) << codec_name(codec);
  }
}

TEST(KeyOutliers, LayersAreKeptInTheFewestBitsThatPass) {
  const KvShape shape(3, {1, dim});
  const auto protect = [&](const KvCodecs& asked, const std::vector<KeySample>& samples) {
    KvLayers layers{{asked, asked, asked}};
    const auto found = protect_outliers(layers, samples, shape);
    return std::pair(layers.name(shape), found);
  };
  // Head 1 of the second layer has outliers in one sample, the third layer in the other.
  const LayerKeys calm = one_key({8}), both{calm[0], one_key({100})[0]};
  const KeySample biases{"biases", {{}, both, {}}};
  const KeySample probe{"probe", {calm, calm, one_key({400})}};
  const auto [name, found] = protect({r4, r4}, {biases, probe});
  EXPECT_EQ(name, "r4/r4 x1, r8/r4 x1, f16/r4 x1");
  ASSERT_EQ(found.size(), 2u);
  EXPECT_EQ(found[0].layer, 1u);
  EXPECT_EQ(found[0].sample, "biases");
  EXPECT_DOUBLE_EQ(found[0].figure, 12.5);
  EXPECT_EQ(found[0].limit, 10);
  EXPECT_EQ(found[1].sample, "probe");
  EXPECT_EQ(found[1].kept, KvCodec{});
  EXPECT_EQ(protect({r8, r4}, {biases, probe}).first, "r8/r4 x2, f16/r4 x1");  // limit 40
  EXPECT_EQ(protect({q4, r4}, {biases, probe}).first, "q4g64/r4 x1, q8g64/r4 x1, f16/r4 x1");
  EXPECT_EQ(protect({q8, q8}, {biases}).first, "q8g64/q8g64 x3");
  EXPECT_EQ(protect({{}, r4}, {biases, probe}).first, "f16/r4 x3");  // keys are halves already
  EXPECT_EQ(protect({f32, r4}, {biases, probe}).first, "f32/r4 x3");
  EXPECT_TRUE(protect({r4, r4}, {}).second.empty());
}

}  // namespace
}  // namespace millrace::engine
