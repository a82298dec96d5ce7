#include "schemas/base/number_text.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "schemas/base/limits.hpp"

namespace millrace {
namespace {

template <class Real>
std::string shortest(Real value) {
  const Real size = std::abs(value);
  const bool plain = size == 0 || (size >= Real{1e-4f} && size < Real{1e7f});
  std::array<char, 64> buffer{};
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string text(buffer.data(), end.ptr);
  std::erase(text, '+');
  return text;
}

}  // namespace

std::string number_text(float value) {
  return shortest(value);
}
std::string number_text(double value) {
  return shortest(value);
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::pair<const char*, std::uint64_t> units[] = {
      {" TiB", 1024 * limits::GiB},
      {" GiB", limits::GiB},
      {" MiB", limits::MiB},
      {" KiB", limits::KiB},
  };
  for (const auto& [name, size] : units) {
    if (bytes < 10 * size && (bytes < size || bytes % size != 0)) continue;
    const double count = static_cast<double>(bytes) / static_cast<double>(size);
    return number_text(static_cast<float>(std::round(count * 10) / 10)) + name;
  }
  return std::to_string(bytes) + " bytes";
}

std::string times_text(std::uint64_t count) {
  return count == 1 ? "once" : std::to_string(count) + " times";
}

std::string count_text(std::uint64_t count, std::string_view noun) {
  return std::to_string(count) + " " + std::string(noun) + (count == 1 ? "" : "s");
}

}  // namespace millrace
