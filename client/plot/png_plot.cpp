#include <png.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "client/plot/font.hpp"
#include "client/plot/scatter.hpp"

namespace millrace::client {
namespace {

constexpr int width = 1000, height = 640, letter_size = 2;
constexpr Box field{110, 76, 850, 474};
using Colour = std::array<std::uint8_t, 3>;
constexpr Colour ink{40, 40, 40}, grid{222, 222, 222}, dot{31, 97, 165};

int text_width(const std::string& text) {
  return static_cast<int>(text.size()) * static_cast<int>(letter_columns + 1) * letter_size;
}
constexpr int text_height = static_cast<int>(letter_rows) * letter_size;

class Canvas {
 public:
  Canvas() : bytes_(std::size_t{3} * width * height, 255) {}

  void fill(const Box& box, const Colour& colour) {
    for (int y = std::max(0, box.y); y < std::min(height, box.y + box.height); ++y) {
      for (int x = std::max(0, box.x); x < std::min(width, box.x + box.width); ++x) {
        std::ranges::copy(colour, bytes_.begin() + 3 * (std::ptrdiff_t{y} * width + x));
      }
    }
  }
  void write(int x, int y, const std::string& text) {
    for (const char letter : text) {
      for (std::uint32_t row = 0; row < letter_rows; ++row) {
        for (std::uint32_t column = 0; column < letter_columns; ++column) {
          if (!letter_dot(letter, column, row)) continue;
          fill({x + static_cast<int>(column) * letter_size, y + static_cast<int>(row) * letter_size,
                letter_size, letter_size},
               ink);
        }
      }
      x += static_cast<int>(letter_columns + 1) * letter_size;
    }
  }
  void disc(int x, int y, int radius) {
    for (int down = -radius; down <= radius; ++down) {
      const int half = static_cast<int>(std::sqrt(radius * radius - down * down));
      fill({x - half, y + down, 2 * half + 1, 1}, dot);
    }
  }
  const std::uint8_t* data() const { return bytes_.data(); }

 private:
  std::vector<std::uint8_t> bytes_;
};

void draw_axes(Canvas& canvas, const ScatterAxes& axes) {
  const int every = std::max(1, (axes.high - axes.low + 11) / 12);
  for (int power = axes.low; power <= axes.high; power += every) {
    const double value = std::pow(10.0, power);
    const int y = field.y + static_cast<int>((1 - axes.upwards(value)) * field.height);
    canvas.fill({field.x, y, field.width, 1}, grid);
    const std::string text = tick_text(value);
    canvas.write(field.x - 10 - text_width(text), y - text_height / 2, text);
  }
  for (double x = 0; x <= axes.x_high * 1.001; x += axes.x_step) {
    const int at = field.x + static_cast<int>(axes.across(x) * field.width);
    canvas.fill({at, field.y, 1, field.height}, grid);
    const std::string text = tick_text(x);
    canvas.write(at - text_width(text) / 2, field.y + field.height + 10, text);
  }
  canvas.fill({field.x, field.y, 2, field.height}, ink);
  canvas.fill({field.x, field.y + field.height, field.width, 2}, ink);
}

void draw_points(Canvas& canvas, const Scatter& scatter, const ScatterAxes& axes) {
  constexpr int radius = 6;
  std::vector<Box> points, labels;
  std::vector<const std::string*> names;
  for (const ScatterPoint& point : scatter.points) {
    if (!(point.y > 0)) continue;
    const int x = field.x + static_cast<int>(axes.across(point.x) * field.width);
    const int y = field.y + static_cast<int>((1 - axes.upwards(point.y)) * field.height);
    canvas.disc(x, y, radius);
    points.push_back({x - radius - 2, y - radius - 2, 2 * radius + 5, 2 * radius + 5});
    labels.push_back({0, 0, text_width(point.label), text_height});
    names.push_back(&point.label);
  }
  const std::vector<Box> places = place_labels(field, points, labels);
  for (std::size_t i = 0; i < places.size(); ++i) {
    canvas.write(places[i].x, places[i].y, *names[i]);
  }
}

}  // namespace

Result<std::string> png_plot(const Scatter& scatter) {
  const ScatterAxes axes = axes_of(scatter);
  Canvas canvas;
  draw_axes(canvas, axes);
  draw_points(canvas, scatter, axes);
  canvas.write(field.x, 12, scatter.title);
  canvas.write(12, 36, scatter.y_name);
  const std::string apart = drawn_apart(scatter);
  canvas.write(field.x, height - 52, scatter.x_name);
  if (!apart.empty()) canvas.write(field.x, height - 26, apart);

  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = width;
  image.height = height;
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t bytes = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string out(bytes, '\0');
  if (png_image_write_to_memory(&image, out.data(), &bytes, 0, canvas.data(), 0, nullptr) == 0) {
    return fail(Code::internal, std::string("libpng cannot write the plot: ") + image.message,
                "report it");
  }
  out.resize(bytes);
  return out;
}

}  // namespace millrace::client
