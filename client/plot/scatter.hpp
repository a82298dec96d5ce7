#pragma once
// Draws labelled points over a linear x axis and a logarithmic y axis, as text or as a PNG.
// Thread safety: plain values and pure functions.
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "schemas/base/error.hpp"

namespace millrace::client {

struct ScatterPoint {
  double x = 0, y = 0;
  std::string label;
};

struct Scatter {
  std::string title, x_name, y_name;
  std::vector<ScatterPoint> points;  // x >= 0; a point without y > 0 is named below the plot
};

std::string text_plot(const Scatter& scatter);         // 72 columns, no newline at the end
Result<std::string> png_plot(const Scatter& scatter);  // bytes of a file; errors: internal
inline constexpr std::string_view png_magic = "\x89PNG\r\n\x1a\n";  // its first bytes

// ---- shared by both renderings

// The x axis runs from 0 to x_high, the y axis from 10^low to 10^high.
struct ScatterAxes {
  double x_high = 1, x_step = 1;
  int low = -1, high = 0;
  double across(double x) const { return x / x_high; }  // 0 to 1
  double upwards(double y) const;                       // 0 to 1
};
ScatterAxes axes_of(const Scatter& scatter);
std::string drawn_apart(const Scatter& scatter);  // "not on the axis: f16 (0)"; empty if all are
std::string tick_text(double value);              // "12,000", "0.001", "1e-06"

// A rectangle in cells or dots, from the upper left corner.
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
  bool overlaps(const Box& other) const;
};
// Finds a place for each point's label beside, above or below the point, inside `field`, where it
// covers no point and no other label. If there is none, the label goes beside the point all the
// same.
std::vector<Box> place_labels(const Box& field, std::span<const Box> points,
                              std::span<const Box> labels);

}  // namespace millrace::client
