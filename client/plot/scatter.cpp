#include "client/plot/scatter.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace millrace::client {
namespace {

// Returns 1, 2 or 5 times a power of ten, so that there are four to eight steps up to `high`.
double round_step(double high) {
  const double power = std::pow(10.0, std::floor(std::log10(high)) - 1);
  for (const double times : {1.0, 2.0, 5.0, 10.0, 20.0}) {
    if (high <= 8 * times * power) return times * power;
  }
  return 20 * power;
}

bool inside(const Box& field, const Box& box) {
  return box.x >= field.x && box.y >= field.y && box.x + box.width <= field.x + field.width &&
         box.y + box.height <= field.y + field.height;
}

}  // namespace

double ScatterAxes::upwards(double y) const {
  return (std::log10(y) - low) / (high - low);
}

ScatterAxes axes_of(const Scatter& scatter) {
  ScatterAxes axes;
  double most_x = 0, least = 0, most = 0;
  for (const ScatterPoint& point : scatter.points) {
    most_x = std::max(most_x, point.x);
    if (!(point.y > 0)) continue;
    least = least > 0 ? std::min(least, point.y) : point.y;
    most = std::max(most, point.y);
  }
  if (most_x > 0) {
    axes.x_step = round_step(most_x);
    axes.x_high = axes.x_step * std::ceil(most_x / axes.x_step * (1 - 1e-9));
  }
  if (most > 0) {
    axes.low = static_cast<int>(std::floor(std::log10(least)));
    axes.high = std::max(axes.low + 1, static_cast<int>(std::ceil(std::log10(most))));
  }
  return axes;
}

std::string drawn_apart(const Scatter& scatter) {
  std::string out;
  for (const ScatterPoint& point : scatter.points) {
    if (point.y > 0) continue;
    out +=
        (out.empty() ? "not on the axis: " : ", ") + point.label + " (" + tick_text(point.y) + ")";
  }
  return out;
}

std::string tick_text(double value) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), value >= 1000 ? "%.0f" : "%.6g", value);
  std::string out = text.data();
  if (value < 1000) return out;
  for (int at = static_cast<int>(out.size()) - 3; at > 0; at -= 3) {
    out.insert(static_cast<std::size_t>(at), ",");
  }
  return out;
}

bool Box::overlaps(const Box& other) const {
  return x < other.x + other.width && other.x < x + width && y < other.y + other.height &&
         other.y < y + height;
}

std::vector<Box> place_labels(const Box& field, std::span<const Box> points,
                              std::span<const Box> labels) {
  std::vector<Box> taken(points.begin(), points.end()), out;
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const Box& point = points[i];
    const auto [w, h] = std::pair{labels[i].width, labels[i].height};
    const int middle = point.y + (point.height - h) / 2;
    const int centre = point.x + (point.width - w) / 2;
    const int after = point.x + point.width + 1, before = point.x - w - 1;
    const int above = point.y - h, below = point.y + point.height;
    const auto choices = std::to_array<Box>({{after, middle, w, h},
                                             {before, middle, w, h},
                                             {centre, above, w, h},
                                             {centre, below, w, h},
                                             {after, above, w, h},
                                             {after, below, w, h},
                                             {before, above, w, h},
                                             {before, below, w, h}});
    const auto fits = [&](const Box& box) {
      return inside(field, box) &&
             std::ranges::none_of(taken, [&](const Box& other) { return box.overlaps(other); });
    };
    const auto* const found = std::ranges::find_if(choices, fits);
    Box place = found == choices.end() ? choices[0] : *found;
    place.x = std::max(field.x, std::min(place.x, field.x + field.width - w));
    taken.push_back(place);
    out.push_back(place);
  }
  return out;
}

}  // namespace millrace::client
