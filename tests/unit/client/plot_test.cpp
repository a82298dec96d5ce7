// Tests the axes, the labels and the text rendering of a scatter plot; tests/e2e/fidelity reads the
// PNG.
#include <gtest/gtest.h>

#include "client/plot/scatter.hpp"

namespace millrace::client {
namespace {

TEST(Plot, AxesHoldAllPointsAndEndAtRoundNumbers) {
  const ScatterAxes axes =
      axes_of({.title = "",
               .x_name = "",
               .y_name = "",
               .points = {{5400, 0.09, "a"}, {23040, 0, "b"}, {12240, 4.9e-4, "c"}}});
  EXPECT_EQ(axes.x_step, 5000);
  EXPECT_EQ(axes.x_high, 25000);
  EXPECT_EQ(axes.low, -4);
  EXPECT_EQ(axes.high, -1);
  EXPECT_NEAR(axes.upwards(1e-4), 0, 1e-12);
  EXPECT_NEAR(axes.upwards(1e-1), 1, 1e-12);
  const ScatterAxes none = axes_of({});
  EXPECT_LT(none.low, none.high);
  EXPECT_GT(none.x_high, 0);
}

TEST(Plot, TicksReadAsPeopleWriteThem) {
  EXPECT_EQ(tick_text(0), "0");
  EXPECT_EQ(tick_text(0.001), "0.001");
  EXPECT_EQ(tick_text(1e-6), "1e-06");
  EXPECT_EQ(tick_text(999), "999");
  EXPECT_EQ(tick_text(1000), "1,000");
  EXPECT_EQ(tick_text(1234567), "1,234,567");
}

TEST(Plot, LabelsCoverNeitherPointsNorEachOther) {
  const Box field{0, 0, 40, 12};
  const std::vector<Box> points{{10, 5, 1, 1}, {12, 5, 1, 1}, {39, 5, 1, 1}, {10, 6, 1, 1}};
  const std::vector<Box> labels{{0, 0, 6, 1}, {0, 0, 6, 1}, {0, 0, 6, 1}, {0, 0, 6, 1}};
  const std::vector<Box> places = place_labels(field, points, labels);
  for (std::size_t i = 0; i < places.size(); ++i) {
    EXPECT_GE(places[i].x, 0);
    EXPECT_LE(places[i].x + places[i].width, 40);
    for (const Box& point : points) EXPECT_FALSE(places[i].overlaps(point)) << i;
    for (std::size_t k = 0; k < i; ++k) EXPECT_FALSE(places[i].overlaps(places[k])) << i << k;
  }
}

TEST(Plot, TheTextHasAPointForEachAndNamesWhatIsNotDrawn) {
  const std::string text =
      text_plot({.title = "t",
                 .x_name = "across",
                 .y_name = "up",
                 .points = {{10, 0.1, "ten"}, {20, 0.001, "twenty"}, {30, 0, "zero"}}});
  EXPECT_NE(text.find("o ten"), std::string::npos) << text;
  EXPECT_NE(text.find("o twenty"), std::string::npos) << text;
  EXPECT_LT(text.find("o ten"), text.find("o twenty"));  // the larger value is drawn higher
  EXPECT_EQ(text.find("o zero"), std::string::npos);
  EXPECT_TRUE(text.ends_with("across; not on the axis: zero (0)")) << text;
  EXPECT_TRUE(text.starts_with("up\n"));
}

TEST(Plot, ThePlotIsWrittenAsAPng) {
  const auto png =
      png_plot({.title = "t", .x_name = "x", .y_name = "y", .points = {{1, 1, "\x01one\xff"}}});
  ASSERT_TRUE(png.has_value());
  EXPECT_EQ(png->substr(1, 3), "PNG");
}

}  // namespace
}  // namespace millrace::client
