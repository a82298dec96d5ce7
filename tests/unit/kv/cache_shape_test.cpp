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

// The shape of Qwen3.5-0.8B: 18 delta nets of 16 heads with states of 128 by 128 and three inputs
// of a convolution over 6,144 channels; six layers that attend, with two KV heads of 256 channels.
CacheShape qwen35() {
  CacheShape out{.shape = KvShape(24, {2, 256}), .layers = std::vector<KvCodecs>(24), .states = {}};
  for (std::uint32_t layer = 0; layer < 24; ++layer) {
    const bool recurs = layer % 4 != 3;
    if (recurs) out.shape.layers[layer] = {};
    out.states.push_back(recurs ? 4 * (16 * 128 * 128 + 3 * 6144) : 0);
  }
  return out;
}

TEST(CacheShape, StatesOf64SequencesFitBesideTheirPages) {
  const CacheShape shape = qwen35();
  EXPECT_EQ(shape.state_bytes(), 18u * 1'122'304);
  EXPECT_EQ(shape.page_bytes(), 16u * 12 * 1024);
  constexpr std::uint64_t memory = std::uint64_t{4} << 30;
  const CacheLoad load{64, 256, 512};
  const std::uint64_t states = shape.state_count(memory, load);
  EXPECT_EQ(states, 64u + (memory - 64 * shape.state_bytes()) / 4 / shape.state_bytes());
  const Pages pages = shape.divide(memory, load);
  ASSERT_EQ(pages.size(), 1u);
  const std::uint64_t used = states * shape.state_bytes() + pages[0] * shape.page_bytes();
  EXPECT_LE(used, memory);
  EXPECT_GT(used, memory - memory / 50);
  EXPECT_GT(pages[0] * 16 / 64, 2048u);  // tokens a sequence
}

TEST(CacheShape, StatesTakeHalfOfALittleMemoryAndAtLeastOne) {
  const CacheShape shape = qwen35();
  const std::uint64_t state = shape.state_bytes(), page = shape.page_bytes();
  EXPECT_EQ(shape.state_count(21 * state, {64, 256, 512}), 10u + 2);
  EXPECT_EQ(shape.divide(21 * state, {64, 256, 512}), (Pages{9 * state / page}));
  EXPECT_EQ(shape.state_count(state + page, {64, 256, 512}), 1u);
  EXPECT_EQ(shape.state_count(1000 * state, {}), 8u + 16);
  EXPECT_TRUE(shape.check_room(state + page));
  const Status status = shape.check_room(state + page - 1);
  ASSERT_FALSE(status);
  EXPECT_EQ(status.error().code, Code::kv_exceeded);
  EXPECT_NE(status.error().message.find("beside the state of a sequence, which takes 19.3 MiB"),
            std::string::npos)
      << status.error().message;
}

TEST(CacheShape, StatesLeaveRoomForAPage) {
  CacheShape shape = cache_of({0});
  shape.states = {page_bytes / 16};
  for (std::uint64_t bytes = page_bytes * 17 / 16; bytes < 3 * page_bytes; bytes += 1000) {
    ASSERT_TRUE(shape.check_room(bytes));
    EXPECT_GE(shape.state_count(bytes, {4, 16, 16}), 1u) << bytes;
    EXPECT_GE(shape.divide(bytes, {4, 16, 16})[0], 1u) << bytes;
  }
}

TEST(CacheShape, AModelWithoutKeysHasPagesOfNoBytes) {
  CacheShape shape{.shape = KvShape(2, {}), .layers = std::vector<KvCodecs>(2)};
  shape.states = {1024, 1024};
  EXPECT_EQ(shape.page_bytes(), 0u);
  EXPECT_EQ(shape.divide(1 << 20, {4, 16, 16}), (Pages{1 << 20}));
  EXPECT_EQ(shape.state_count(1 << 20, {4, 16, 16}), 4u + 8);
}

}  // namespace
}  // namespace millrace::engine
