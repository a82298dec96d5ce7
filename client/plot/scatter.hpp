#pragma once
// Labelled points over a linear axis across and a logarithmic one upwards, drawn as text or PNG.
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
  std::vector<ScatterPoint> points;  // x >= 0; what has no y > 0 is named below, not drawn
};

std::string text_plot(const Scatter& scatter);         // 72 columns, no newline at the end
Result<std::string> png_plot(const Scatter& scatter);  // a file's bytes; errors: internal
inline constexpr std::string_view png_magic = "\x89PNG\r\n\x1a\n";  // its first

// ---- shared by both pictures

// Across from 0 to x_high; upwards from 10^low to 10^high.
struct ScatterAxes {
  double x_high = 1, x_step = 1;
  int low = -1, high = 0;
  double across(double x) const { return x / x_high; }  // 0 to 1
  double upwards(double y) const;
};
ScatterAxes axes_of(const Scatter& scatter);
std::string drawn_apart(const Scatter& scatter);  // "not on the axis: f16 (0)"; empty: none is
std::string tick_text(double value);              // "12,000", "0.001", "1e-06"

// In cells or dots, from the upper left corner.
struct Box {
  int x = 0, y = 0, width = 0, height = 0;
  bool overlaps(const Box& other) const;
};
// A place for each point's label beside, above or below it, inside `field`, where it covers no
// point and no other label; where there is none, beside it all the same.
std::vector<Box> place_labels(const Box& field, std::span<const Box> points,
                              std::span<const Box> labels);

}  // namespace millrace::client
