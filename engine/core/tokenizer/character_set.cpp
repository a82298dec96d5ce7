#include "engine/core/tokenizer/character_set.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <ranges>

namespace millrace::engine {
namespace {

// The names of utf8proc's categories, in its order.
constexpr std::array<std::string_view, kCategories> kCategoryNames{
    "Cn", "Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "Pc", "Pd", "Ps",
    "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co"};
static_assert(UTF8PROC_CATEGORY_CO + 1 == kCategories);

// The code points of the script Han in Unicode 15, from its Scripts.txt.
constexpr CodePointRange kHan[] = {{0x2e80, 0x2e99},   {0x2e9b, 0x2ef3},   {0x2f00, 0x2fd5},
                                   {0x3005, 0x3005},   {0x3007, 0x3007},   {0x3021, 0x3029},
                                   {0x3038, 0x303b},   {0x3400, 0x4dbf},   {0x4e00, 0x9fff},
                                   {0xf900, 0xfa6d},   {0xfa70, 0xfad9},   {0x16fe2, 0x16fe3},
                                   {0x16ff0, 0x16ff1}, {0x20000, 0x2a6df}, {0x2a700, 0x2b739},
                                   {0x2b740, 0x2b81d}, {0x2b820, 0x2cea1}, {0x2ceb0, 0x2ebe0},
                                   {0x2f800, 0x2fa1d}, {0x30000, 0x3134a}, {0x31350, 0x323af}};

}  // namespace

unsigned category_of(char32_t code_point) {
  return static_cast<unsigned>(utf8proc_category(static_cast<utf8proc_int32_t>(code_point)));
}

bool CharacterSet::contains(char32_t code_point, unsigned category) const {
  const auto holds = [&](const CharacterSet& set) { return set.contains(code_point, category); };
  const bool named =
      (categories >> category & 1) != 0 ||
      std::ranges::any_of(ranges,
                          [&](const CodePointRange& range) {
                            return range.first <= code_point && code_point <= range.last;
                          }) ||
      std::ranges::any_of(members, holds);
  return (named && std::ranges::all_of(limits, holds)) != negated;
}

void CharacterSet::boundaries(std::vector<char32_t>& out) const {
  for (const auto& range : ranges) {
    out.push_back(range.first);
    out.push_back(range.last + 1);
  }
  for (const auto& set : members) set.boundaries(out);
  for (const auto& set : limits) set.boundaries(out);
}

CharacterSet CharacterSet::of(char32_t code_point) {
  CharacterSet set;
  set.ranges = {{code_point, code_point}};
  return set;
}

CharacterSet CharacterSet::spaces() {
  auto set = *property("Z");
  set.ranges = {{0x09, 0x0d}, {0x85, 0x85}};
  return set;
}

CharacterSet CharacterSet::digits() {
  return *property("Nd");
}

std::optional<CharacterSet> CharacterSet::property(std::string_view name) {
  CharacterSet set;
  if (name == "Han") {
    set.ranges.assign(std::begin(kHan), std::end(kHan));
    return set;
  }
  if (name.empty()) return std::nullopt;
  for (unsigned category = 0; category < kCategories; ++category)
    if (kCategoryNames[category].starts_with(name)) set.categories |= 1u << category;
  if (set.categories == 0) return std::nullopt;
  return set;
}

}  // namespace millrace::engine
