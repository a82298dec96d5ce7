#include "engine/core/kv/cache_shape.hpp"

#include <gtest/gtest.h>

namespace millrace::engine {
namespace {

using Layers = std::vector<std::uint32_t>;
using Pages = std::vector<std::uint64_t>;

// Layers of 8 KV heads of 64 channels in halves: 32 KiB a page.
CacheShape cache_of(const Layers& windows) {
  return {.shape = KvShape(static_cast<std::uint32_t>(windows.size()), {8, 64}),
          .layers = std::vector<KvCodecs>(windows.size()),
          .windows = windows};
}
constexpr std::uint64_t page_bytes = 32 * 1024;

TEST(CacheShape, LayersOfOneWindowAreAGroup) {
  const auto groups = cache_of({128, 0, 128, 0, 64}).groups();
  ASSERT_EQ(groups.size(), 3u);
  EXPECT_EQ(groups[0].window, 0u);
  EXPECT_EQ(groups[0].layers, (Layers{1, 3}));
  EXPECT_EQ(groups[1].window, 128u);
  EXPECT_EQ(groups[1].layers, (Layers{0, 2}));
  EXPECT_EQ(groups[2].window, 64u);
  EXPECT_EQ(groups[2].layers, (Layers{4}));
}

TEST(CacheShape, TheLargestWindowKeepsAllIfEveryLayerHasOne) {
  const auto groups = cache_of({64, 128, 64}).groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].window, 0u);
  EXPECT_EQ(groups[0].layers, (Layers{1}));
  EXPECT_EQ(groups[1].window, 64u);
  EXPECT_EQ(cache_of({64, 64}).groups().size(), 1u);
  EXPECT_EQ(CacheShape({.shape = KvShape(3, {1, 32}), .layers = std::vector<KvCodecs>(3)})
                .groups()
                .size(),
            1u);
}

TEST(CacheShape, LayersHaveHeadsOfTheirOwnOrStoreNothing) {
  CacheShape mixed = cache_of({0, 128, 0, 128});
  mixed.shape.layers[1] = {};
  mixed.shape.layers[2] = {2, 128};
  const auto groups = mixed.groups();
  ASSERT_EQ(groups.size(), 2u);
  EXPECT_EQ(groups[0].layers, (Layers{0, 2}));
  EXPECT_EQ(groups[1].layers, (Layers{3}));
  EXPECT_EQ(mixed.layer_page_bytes(1), 0u);
  EXPECT_EQ(mixed.layer_page_bytes(2), page_bytes / 2);
  EXPECT_EQ(mixed.page_bytes(groups[0]), page_bytes * 3 / 2);
  EXPECT_EQ(mixed.page_bytes(), page_bytes * 5 / 2);
  EXPECT_EQ(mixed.layer_places(),
            (Pages{0, page_bytes, page_bytes, page_bytes * 3 / 2, page_bytes * 5 / 2}));
  // If only layers without keys see everything, the largest window of the others keeps all.
  mixed.shape.layers[0] = mixed.shape.layers[2] = {};
  ASSERT_EQ(mixed.groups().size(), 1u);
  EXPECT_EQ(mixed.groups()[0].window, 0u);
  EXPECT_EQ(mixed.groups()[0].layers, (Layers{3}));
}

TEST(CacheShape, OneGroupHasAllTheMemory) {
  EXPECT_EQ(cache_of({0, 0}).divide(20 * page_bytes + page_bytes / 2, {64, 256, 512}), (Pages{10}));
}

// A window of 128 of 4 sequences: 4 * 11 pages, two steps of 512 tokens are 64, a quarter more.
TEST(CacheShape, AWindowedGroupGetsWhatAllSequencesNeed) {
  const CacheShape two = cache_of({128, 0});
  EXPECT_EQ(two.divide(1000 * page_bytes, {4, 256, 512}), (Pages{865, 135}));
  EXPECT_EQ(two.divide(1000 * page_bytes, {}), (Pages{500, 500}));  // hand-made plans
  // Never more than if both had the same number.
  EXPECT_EQ(two.divide(100 * page_bytes, {4, 256, 512}), (Pages{50, 50}));
  // At least what one long sequence needs: 128 + 2 * 256 + 32 positions are 42 pages.
  EXPECT_EQ(two.divide(1000 * page_bytes, {1, 256, 1}), (Pages{958, 42}));
}

TEST(CacheShape, GroupsOfSeveralLayersHaveLargerPages) {
  // 5 of 6 layers have a window, as in Gemma 3.
  const Pages pages =
      cache_of({512, 512, 512, 512, 512, 0}).divide(6000 * page_bytes, {4, 256, 512});
  EXPECT_EQ(pages, (Pages{6000 - 5 * 255, 255}));
}

TEST(CacheShape, MemoryForNoPageIsRefused) {
  const CacheShape two = cache_of({128, 0});
  EXPECT_TRUE(two.check_room(2 * page_bytes));
  const Status status = two.check_room(2 * page_bytes - 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kv_exceeded);
  EXPECT_NE(status.error().message.find("16 tokens takes 64 KiB"), std::string::npos)
      << status.error().message;
}

}  // namespace
}  // namespace millrace::engine
