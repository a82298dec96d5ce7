// The rule of `--kv auto`.
#include "engine/core/kv/choose.hpp"

#include <gtest/gtest.h>

#include <string>

namespace millrace::engine {
namespace {

const KvShape small(30, {3, 64});
constexpr std::uint64_t MiB = 1 << 20;

KvChoice choice(const KvLoad& load, const KvShape& shape = small,
                const KvProtection& protection = {}) {
  return choose_kv(shape, load, protection).value_or(KvChoice{"refused"});
}

std::string chosen(const KvLoad& load, const KvShape& shape = small) {
  return std::string(choice(load, shape).policy);
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
      choice({.memory_bytes = 400 * MiB, .max_batch = 16, .context_tokens = 8192});
  EXPECT_EQ(fits.load_tokens, 16u * 2048);
  EXPECT_GE(fits.holds_tokens, fits.load_tokens);
  EXPECT_TRUE(fits.fits());
  const KvChoice waits =
      choice({.memory_bytes = 10 * MiB, .max_batch = 16, .context_tokens = 8192});
  EXPECT_FALSE(waits.fits());
  EXPECT_EQ(waits.holds_tokens % kv_page_tokens, 0u);
  EXPECT_NEAR(static_cast<double>(waits.holds_tokens), 10.0 * MiB / 7560, 16);
}

TEST(ChooseKv, ExpectsNoMoreThanTheContextAndRoomForOneOfIt) {
  // Short contexts: 64 of 512 tokens are 720 MiB in f16.
  EXPECT_EQ(chosen({.memory_bytes = 720 * MiB, .max_batch = 64, .context_tokens = 512}), "f16");
  // A long one alone: 65,536 tokens are 1,440 MiB in f16, 765 in q8.
  const KvLoad one{.memory_bytes = 1439 * MiB, .max_batch = 1, .context_tokens = 65536};
  EXPECT_EQ(choice(one).load_tokens, 65536u);
  EXPECT_EQ(chosen(one), "q8");
}

TEST(ChooseKv, CountsProtectedLayersAsHalves) {
  const KvLoad load{.memory_bytes = 400 * MiB, .max_batch = 16, .context_tokens = 8192};
  EXPECT_EQ(chosen(load), "q8");
  EXPECT_EQ(choice(load).holds_tokens, 34256u);
  // With q8 and four layers in halves the memory holds 30,656 tokens, fewer than the load of
  // 32,768.
  const KvChoice ends = choice(load, small, {.first = 2, .last = 2});
  EXPECT_EQ(ends.policy, "k8v4");
  EXPECT_EQ(ends.holds_tokens, 37840u);
  EXPECT_TRUE(ends.fits());
  const auto beyond = choose_kv(small, load, {.layers = {30}});
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, Code::invalid_value);
  EXPECT_NE(beyond.error().message.find("--kv-protect layer:30"), std::string::npos);
}

TEST(ChooseKv, HeadsOf96HaveGroupsOf32) {
  // 16 sequences of 2,048 tokens: 1,080 MiB in f16, then 607.5, 472.5 and 405.
  const auto with = [](std::uint64_t mib) {
    return chosen({.memory_bytes = mib * MiB, .max_batch = 16, .context_tokens = 8192},
                  KvShape(30, {3, 96}));
  };
  EXPECT_EQ(with(1080), "f16");
  EXPECT_EQ(with(1079), "q8g32");
  EXPECT_EQ(with(608), "q8g32");
  EXPECT_EQ(with(607), "q8g32/q4g32");
  EXPECT_EQ(with(473), "q8g32/q4g32");
  EXPECT_EQ(with(472), "q6g32/q4g32");
  EXPECT_EQ(with(10), "q6g32/q4g32");
}

TEST(ChooseKv, PassesOverWhatTheHeadsCannotBeStoredIn) {
  const KvShape shape(30, {3, 80});
  EXPECT_EQ(chosen({.memory_bytes = MiB, .max_batch = 16, .context_tokens = 8192}, shape), "f16");
  // Keys of 256 channels that hold the values could be packed, but not yet.
  const KvShape latent(30, {1, 256, true});
  EXPECT_EQ(chosen({.memory_bytes = MiB, .max_batch = 16, .context_tokens = 8192}, latent), "f16");
}

TEST(ChooseKv, TheLadderGetsSmallerStepByStep) {
  const KvShape of_96(30, {3, 96});
  double last = 0.5, last_of_96 = 0.5;
  for (const KvRung& rung : kv_ladder()) {
    const auto layers = resolve(*parse_kv_policy(rung.policy), small);
    ASSERT_TRUE(layers) << rung.policy;
    EXPECT_GT(layers->compression(small), last);
    last = layers->compression(small);
    const auto groups = resolve(*parse_kv_policy(rung.in_groups_of_32), of_96);
    ASSERT_TRUE(groups) << rung.in_groups_of_32;
    EXPECT_GT(groups->compression(of_96), last_of_96);
    last_of_96 = groups->compression(of_96);
  }
}

}  // namespace
}  // namespace millrace::engine
