// Tests the tuned table: every device finds a row, and the most specific one comes first.
#include "kernels/tuned.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/core/model/operations.hpp"

namespace millrace::kernels {
namespace {

TEST(Tuned, AnUnknownDeviceHasTheSafeDefaultsOfItsKind) {
  const Tuning wide = tuned_for({"cpu", "a processor of next year", "avx512vnni", 16});
  EXPECT_EQ(wide.integer_tile, 6u);
  EXPECT_EQ(wide.float_tile, 16u);
  const Tuning narrow = tuned_for({"cpu", "a small one", "plain", 4});
  EXPECT_EQ(narrow.float_tile, 6u);
  EXPECT_EQ(narrow.integer_tile, 4u);
  EXPECT_EQ(tuned_for({"generic", "anything", "", 1}), Tuning());
}

TEST(Tuned, ADevicesNameCountsBeforeItsFamily) {
  std::size_t named = 0;
  for (const TunedRow& row : tuned_table()) {
    if (row.key.device.empty()) continue;
    ++named;
    EXPECT_EQ(&tuned_for(row.key), &row.tuning) << row.key.device;
    // A device with another name gets the defaults of its family: the first row without a name.
    DeviceKey other = row.key;
    other.device = "another";
    const Tuning* const family = &tuned_for(other);
    EXPECT_NE(family, &row.tuning) << row.key.device;
    const auto first = std::ranges::find_if(tuned_table(), [&](const TunedRow& candidate) {
      return candidate.key.device.empty() && candidate.key.dot == row.key.dot;
    });
    EXPECT_EQ(family, &first->tuning) << row.key.device;
  }
  EXPECT_GE(named, 1u);
}

TEST(Tuned, WideCompilersAndWideDotProductsAreToldApart) {
  EXPECT_EQ(tuned_for({"cpu", "", "avx2", 16}).integer_tile, 4u);
  EXPECT_EQ(tuned_for({"cpu", "", "avx2", 16}).float_tile, 16u);
  EXPECT_EQ(tuned_for({"cpu", "", "avx512bw", 8}).integer_tile, 6u);
  EXPECT_EQ(tuned_for({"cpu", "", "avx512bw", 8}).float_tile, 6u);
}

TEST(Tuned, TheLastRowFitsEverythingAndNoRowHidesALaterOne) {
  const auto table = tuned_table();
  const DeviceKey& last = table.back().key;
  EXPECT_TRUE(last.family.empty() && last.device.empty() && last.dot.empty() && last.lanes == 0);
  for (const TunedRow& row : table) EXPECT_EQ(&tuned_for(row.key), &row.tuning);
}

// The kernels support only certain widths, and their widest tile must not read beyond the slack
// rows of its input.
TEST(Tuned, EveryRowIsOneThatTheKernelsTake) {
  for (const TunedRow& row : tuned_table()) {
    EXPECT_LE(row.tuning.float_tile, engine::input_slack_rows);
    EXPECT_LE(row.tuning.integer_tile, engine::input_slack_rows);
    EXPECT_GE(row.tuning.product_groups, 1u);
    if (row.key.family != "cpu") continue;
    EXPECT_TRUE((std::set<std::uint32_t>{6, 8, 12, 16}.contains(row.tuning.float_tile)));
    EXPECT_TRUE((std::set<std::uint32_t>{4, 6}.contains(row.tuning.integer_tile)));
    EXPECT_TRUE((std::set<std::uint32_t>{6, 12, 24}.contains(row.tuning.attention_sums)));
    EXPECT_GE(row.tuning.layer_pairs, 1u);
    EXPECT_GE(row.tuning.layer_tiles, 1u);
  }
}

}  // namespace
}  // namespace millrace::kernels
