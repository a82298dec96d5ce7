#include "schemas/base/amounts.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <string>

namespace millrace {
namespace {

struct Unit {
  std::string_view name;
  double times;
};
constexpr Unit sizes[] = {{"", 1},         {"b", 1},        {"k", 0x1p10},   {"m", 0x1p20},
                          {"g", 0x1p30},   {"t", 0x1p40},   {"kib", 0x1p10}, {"mib", 0x1p20},
                          {"gib", 0x1p30}, {"tib", 0x1p40}, {"kb", 1'000},   {"mb", 1'000'000},
                          {"gb", 1e9},     {"tb", 1e12}};
constexpr Unit times[] = {{"", 1}, {"s", 1}, {"m", 60}, {"h", 3'600}, {"d", 86'400}};

char small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

std::optional<std::uint64_t> parse(std::string_view text, std::span<const Unit> units) {
  double number = 0;
  const auto [end, wrong] = std::from_chars(text.data(), text.data() + text.size(), number);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (text.starts_with(' ')) text.remove_prefix(1);
  if (wrong != std::errc() || !std::isfinite(number) || number < 0) return {};
  const auto unit = std::ranges::find(units, text, &Unit::name);
  if (unit == units.end() || number * unit->times >= 0x1p63) return {};
  return static_cast<std::uint64_t>(number * unit->times);
}

}  // namespace

Result<std::uint64_t> parse_size(std::string_view text) {
  std::string in_small(text);
  std::ranges::transform(in_small, in_small.begin(), small);
  if (const auto bytes = parse(in_small, sizes)) return *bytes;
  return fail(Code::usage, "\"" + std::string(text) + "\" is not a size",
              "write it like 2GiB, 512MiB or 1000000");
}

Result<std::uint64_t> parse_duration(std::string_view text) {
  if (const auto seconds = parse(text, times)) return *seconds;
  return fail(Code::usage, "\"" + std::string(text) + "\" is not a time",
              "write it like 30d, 12h, 15m or 90s");
}

}  // namespace millrace
