// The rule of `--kv auto`.
#include "engine/core/kv/choose.hpp"

#include <gtest/gtest.h>

#include <string>

namespace millrace::engine {
namespace {

constexpr KvShape small{.layers = 30, .kv_heads = 3, .head_dim = 64};
constexpr std::uint64_t MiB = 1 << 20;

std::string chosen(const KvLoad& load, const KvShape& shape = small) {
  return std::string(choose_kv(shape, load).preset);
}

TEST(ChooseKv, TakesTheClosestThatHoldsTheLoad) {
  // 16 sequences of 2,048 tokens: 720 MiB in f16, 382 in q8, 289 in k8v4, 236 in k6v4, in whole
  // pages.
  const auto with = [](std::uint64_t mib) {
    return chosen({.memory_bytes = mib * MiB, .max_batch = 16, .context_tokens = 8192});
  };
  EXPECT_EQ(with(720), "f16");
  EXPECT_EQ(with(719), "q8");
  EXPECT_EQ(with(383), "q8");
  EXPECT_EQ(with(382), "k8v4");
  EXPECT_EQ(with(289), "k8v4");
  EXPECT_EQ(with(288), "k6v4");
  EXPECT_EQ(with(10), "k6v4");  // sequences wait rather than lose quality
}

TEST(ChooseKv, SaysWhetherTheLoadFits) {
  const KvChoice fits =
      choose_kv(small, {.memory_bytes = 400 * MiB, .max_batch = 16, .context_tokens = 8192});
  EXPECT_EQ(fits.load_tokens, 16u * 2048);
  EXPECT_GE(fits.holds_tokens, fits.load_tokens);
  EXPECT_TRUE(fits.fits());
  const KvChoice waits =
      choose_kv(small, {.memory_bytes = 10 * MiB, .max_batch = 16, .context_tokens = 8192});
  EXPECT_FALSE(waits.fits());
  EXPECT_EQ(waits.holds_tokens % kv_page_tokens, 0u);
  EXPECT_NEAR(static_cast<double>(waits.holds_tokens), 10.0 * MiB / 7560, 16);
}

TEST(ChooseKv, ExpectsNoMoreThanTheContextAndRoomForOneOfIt) {
  // Short contexts: 64 of 512 tokens are 720 MiB in f16.
  EXPECT_EQ(chosen({.memory_bytes = 720 * MiB, .max_batch = 64, .context_tokens = 512}), "f16");
  // A long one alone: 65,536 tokens are 1,440 MiB in f16, 765 in q8.
  const KvLoad one{.memory_bytes = 1439 * MiB, .max_batch = 1, .context_tokens = 65536};
  EXPECT_EQ(choose_kv(small, one).load_tokens, 65536u);
  EXPECT_EQ(chosen(one), "q8");
}

TEST(ChooseKv, PassesOverWhatTheHeadsCannotBeStoredIn) {
  for (const std::uint32_t dim : {80u, 96u}) {
    const KvShape shape{.layers = 30, .kv_heads = 3, .head_dim = dim};
    EXPECT_EQ(chosen({.memory_bytes = MiB, .max_batch = 16, .context_tokens = 8192}, shape), "f16");
  }
}

TEST(ChooseKv, TheLadderGetsSmallerStepByStep) {
  double last = 0.5;
  for (const std::string_view name : kv_ladder()) {
    const auto layers = resolve(*parse_kv_policy(name), small);
    ASSERT_TRUE(layers) << name;
    EXPECT_GT(layers->compression(small), last);
    last = layers->compression(small);
  }
}

}  // namespace
}  // namespace millrace::engine
