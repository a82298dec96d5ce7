// Compares rows of logits on the device and in float64, and tests the figures over many positions.
#include "engine/core/fidelity/comparison.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/support/device.hpp"

namespace millrace::engine {
namespace {

using testing::must;
using testing::open_device;
using testing::Random;
using testing::upload;

struct Rows {
  std::uint32_t vocabulary = 0, count = 0;
  std::vector<float> truth{}, ours{};
  Tokens targets{};
};

struct Exact {
  double kld = 0, truth_logprob = 0, logprob = 0;
  bool same_top = false;
};

Exact exact_row(const Rows& rows, std::uint32_t index) {
  const float* const a = &rows.truth[std::size_t{index} * rows.vocabulary];
  const float* const b = &rows.ours[std::size_t{index} * rows.vocabulary];
  const auto log_sum = [&](const float* row) {
    const double top = *std::max_element(row, row + rows.vocabulary);
    double sum = 0;
    for (std::uint32_t i = 0; i < rows.vocabulary; ++i) sum += std::exp(row[i] - top);
    return top + std::log(sum);
  };
  const double za = log_sum(a), zb = log_sum(b);
  Exact out;
  for (std::uint32_t i = 0; i < rows.vocabulary; ++i) {
    out.kld += std::exp(a[i] - za) * ((a[i] - za) - (b[i] - zb));
  }
  const std::uint32_t target = rows.targets[index];
  out.truth_logprob = a[target] - za;
  out.logprob = b[target] - zb;
  out.same_top =
      std::max_element(a, a + rows.vocabulary) - a == std::max_element(b, b + rows.vocabulary) - b;
  return out;
}

std::vector<PositionFidelity> compare(const std::string& family, const Rows& rows) {
  const auto device = open_device({.variant = family});
  auto comparison = must(Comparison::create(*device, rows.vocabulary, rows.count));
  const Buffer truth = upload(*device, rows.truth), ours = upload(*device, rows.ours);
  std::vector<PositionFidelity> out;
  must(comparison.compare({&truth, rows.vocabulary}, {&ours, rows.vocabulary}, rows.targets,
                          "the reference", out));
  return out;
}

// Pairs of rows with differences of 1e-4, of 0.03, of a few, of only a constant, with none at all,
// and two rows that agree on nothing.
Rows rows_of(std::uint32_t vocabulary, std::uint64_t seed) {
  Random random(seed);
  Rows rows{.vocabulary = vocabulary, .count = 6};
  for (const float noise : {1e-4f, 0.03f, 4.0f, 0.0f, 0.0f, 150.0f}) {
    const bool moved = rows.targets.size() == 3;
    for (std::uint32_t i = 0; i < vocabulary; ++i) {
      const float a = noise > 100 ? random.uniform(-noise, noise) : random.uniform(-12, 18);
      rows.truth.push_back(a);
      rows.ours.push_back((noise > 100 ? 0 : a) + random.uniform(-noise, noise) +
                          (moved ? 20.0f : 0.0f));
    }
    rows.targets.push_back(random.below(vocabulary));
  }
  return rows;
}

TEST(Comparison, EqualsFloat64FromNearToFarAndInEveryVariant) {
  for (const std::uint32_t vocabulary : {5u, 70u, 1024u, 1031u, 49152u}) {
    const Rows rows = rows_of(vocabulary, vocabulary);
    const auto generic = compare("generic", rows);
    ASSERT_EQ(generic.size(), rows.count);
    for (std::uint32_t i = 0; i < rows.count; ++i) {
      const Exact exact = exact_row(rows, i);
      // Adding a constant rounds every logit: 20 costs up to 1e-6 each.
      const double least = i == 3 ? 1e-11 : 1e-13;
      EXPECT_NEAR(generic[i].kld, exact.kld, 3e-5 * exact.kld + least) << vocabulary << " " << i;
      EXPECT_NEAR(generic[i].truth_logprob, exact.truth_logprob, 4e-5) << i;
      EXPECT_NEAR(generic[i].logprob, exact.logprob, 4e-5) << i;
      EXPECT_EQ(generic[i].same_top, exact.same_top) << i;
    }
    EXPECT_EQ(generic[4].kld, 0.0f);  // the rows are the same, so the KLD is exactly 0
    if (!testing::has_cpu_family()) continue;
    const auto cpu = compare("cpu", rows);
    for (std::uint32_t i = 0; i < rows.count; ++i) {
      EXPECT_EQ(cpu[i].kld, generic[i].kld) << vocabulary << " " << i;
      EXPECT_EQ(cpu[i].truth_logprob, generic[i].truth_logprob);
      EXPECT_EQ(cpu[i].logprob, generic[i].logprob);
      EXPECT_EQ(cpu[i].same_top, generic[i].same_top);
    }
  }
}

// Groups that run on several cores at once must not share local memory.
TEST(Comparison, ManyRowsAtOnceGiveEachRowTheSameBits) {
  const Rows few = rows_of(49152, 7);
  Rows rows{.vocabulary = few.vocabulary, .count = 96};
  for (std::uint32_t copy = 0; copy < 16; ++copy) {
    rows.truth.insert(rows.truth.end(), few.truth.begin(), few.truth.end());
    rows.ours.insert(rows.ours.end(), few.ours.begin(), few.ours.end());
    rows.targets.insert(rows.targets.end(), few.targets.begin(), few.targets.end());
  }
  for (const std::string& family : testing::families()) {
    for (std::uint32_t time = 0; time < 3; ++time) {
      const auto got = compare(family, rows);
      for (std::uint32_t i = 6; i < rows.count; ++i) {
        EXPECT_EQ(got[i].kld, got[i - 6].kld) << family << " " << i;
        EXPECT_EQ(got[i].truth_logprob, got[i - 6].truth_logprob) << family << " " << i;
        EXPECT_EQ(got[i].logprob, got[i - 6].logprob) << family << " " << i;
      }
    }
  }
}

TEST(Comparison, ATieOfTheLargestGoesToTheLowerId) {
  for (const std::string& family : testing::families()) {
    Rows rows{.vocabulary = 600, .count = 2};
    rows.truth.assign(1200, 0.0f);
    rows.ours.assign(1200, 0.0f);
    rows.truth[40] = rows.truth[599] = rows.ours[40] = rows.ours[300] = 1.0f;  // 40 in both
    rows.truth[600 + 40] = 1.0f;
    rows.ours[600 + 24] = rows.ours[600 + 40] = 1.0f;  // 40 and 24
    rows.targets = {0, 0};
    const auto got = compare(family, rows);
    EXPECT_TRUE(got[0].same_top);
    EXPECT_FALSE(got[1].same_top);
  }
}

TEST(Comparison, WhatIsNotFiniteIsRefusedAndSaysWhose) {
  for (const std::string& family : testing::families()) {
    const auto device = open_device({.variant = family});
    auto comparison = must(Comparison::create(*device, 100, 1));
    for (const float bad : {INFINITY, -INFINITY, NAN}) {
      std::vector<float> row(100, 1.0f);
      const Buffer sound = upload(*device, row);
      row[99] = bad;
      const Buffer broken = upload(*device, row);
      std::vector<PositionFidelity> out;
      const Tokens target{7};
      const auto truth =
          comparison.compare({&broken, 100}, {&sound, 100}, target, "truth.f32", out);
      ASSERT_FALSE(truth);
      EXPECT_EQ(truth.error().code, Code::invalid_value);
      EXPECT_NE(truth.error().message.find("truth.f32"), std::string::npos);
      const auto ours = comparison.compare({&sound, 100}, {&broken, 100}, target, "x", out);
      ASSERT_FALSE(ours);
      EXPECT_NE(ours.error().message.find("the model gives"), std::string::npos);
      EXPECT_TRUE(out.empty());
    }
  }
}

TEST(Comparison, MoreRowsThanAnnouncedAreADefect) {
  const auto device = open_device();
  auto comparison = must(Comparison::create(*device, 10, 1));
  const Buffer rows = upload(*device, std::vector<float>(20));
  std::vector<PositionFidelity> out;
  const Tokens two{1, 2}, outside{10};
  for (const Tokens& targets : {two, outside}) {
    const auto refused = comparison.compare({&rows, 10}, {&rows, 10}, targets, "x", out);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::internal);
  }
}

TEST(Figures, AreThoseOfAHandfulWorkedOutByHand) {
  std::vector<PositionFidelity> at;
  for (int i = 0; i <= 100; ++i) {  // of 0, 1, ... 100 the 99th percentile is 99
    const float size = static_cast<float>((i * 37) % 101);
    at.push_back({size, -1.0f, i % 2 == 0 ? -2.0f : -3.0f, i < 60});
  }
  const FidelityFigures all = figures_of(at);
  EXPECT_EQ(all.positions, 101u);
  EXPECT_DOUBLE_EQ(all.mean_kld, 50);
  EXPECT_DOUBLE_EQ(all.p99_kld, 99);
  EXPECT_DOUBLE_EQ(all.max_kld, 100);
  EXPECT_DOUBLE_EQ(all.top1, 60.0 / 101);
  EXPECT_DOUBLE_EQ(all.perplexity, std::exp((51 * 2.0 + 50 * 3.0) / 101));
  EXPECT_DOUBLE_EQ(all.truth_perplexity, std::exp(1.0));
  at.resize(2);  // 0 and 37: the percentile lies at 99 % of the way between them
  EXPECT_DOUBLE_EQ(figures_of(at).p99_kld, 0.99 * 37);
  EXPECT_EQ(figures_of({}).positions, 0u);
}

}  // namespace
}  // namespace millrace::engine
