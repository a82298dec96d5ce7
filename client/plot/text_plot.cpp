#include <algorithm>
#include <cmath>

#include "client/plot/scatter.hpp"

namespace millrace::client {
namespace {

constexpr int columns = 60, rows = 16;  // of the field
constexpr int margin = 9;               // left of the field, for the ticks

class Page {
 public:
  Page() : lines_(rows + 2, std::string(margin + 1 + columns + 2, ' ')) {}
  // Cuts text that would leave the page.
  void put(int column, int row, const std::string& text) {
    std::string& line = lines_[static_cast<std::size_t>(row)];
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::size_t at = static_cast<std::size_t>(std::max(0, column)) + i;
      if (at < line.size()) line[at] = text[i];
    }
  }
  std::string text() const {
    std::string out;
    for (const std::string& line : lines_) {
      out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return out;
  }

 private:
  std::vector<std::string> lines_;
};

void put_axes(Page& page, const ScatterAxes& axes) {
  for (int row = 0; row < rows; ++row) page.put(margin, row, "|");
  page.put(margin, rows, "+" + std::string(columns, '-'));
  // Labels as many powers of ten as can have a row each.
  const int every = std::max(1, (axes.high - axes.low + rows / 2 - 1) / (rows / 2));
  for (int power = axes.low; power <= axes.high; power += every) {
    const double at = axes.upwards(std::pow(10.0, power));
    const int row = static_cast<int>(std::lround((1 - at) * (rows - 1)));
    const std::string text = tick_text(std::pow(10.0, power));
    page.put(margin - 1 - static_cast<int>(text.size()), row, text + " +");
  }
  for (double x = 0; x <= axes.x_high * 1.001; x += axes.x_step) {
    const int column = margin + 1 + static_cast<int>(std::lround(axes.across(x) * (columns - 1)));
    const std::string text = tick_text(x);
    page.put(column, rows, "+");
    page.put(column - static_cast<int>(text.size()) / 2, rows + 1, text);
  }
}

}  // namespace

std::string text_plot(const Scatter& scatter) {
  const ScatterAxes axes = axes_of(scatter);
  Page page;
  put_axes(page, axes);
  std::vector<Box> points, labels;
  std::vector<const std::string*> names;
  for (const ScatterPoint& point : scatter.points) {
    if (!(point.y > 0)) continue;
    const auto across = static_cast<int>(std::lround(axes.across(point.x) * (columns - 1)));
    const auto down = static_cast<int>(std::lround((1 - axes.upwards(point.y)) * (rows - 1)));
    points.push_back({margin + 1 + across, down, 1, 1});
    labels.push_back({0, 0, static_cast<int>(point.label.size()), 1});
    names.push_back(&point.label);
  }
  const std::vector<Box> places = place_labels({margin + 1, 0, columns, rows}, points, labels);
  for (std::size_t i = 0; i < places.size(); ++i) page.put(places[i].x, places[i].y, *names[i]);
  for (const Box& point : points) page.put(point.x, point.y, "o");
  std::string out = scatter.y_name + "\n" + page.text();
  out += std::string(margin + 1, ' ') + scatter.x_name;
  const std::string apart = drawn_apart(scatter);
  return apart.empty() ? out : out + "; " + apart;
}

}  // namespace millrace::client
