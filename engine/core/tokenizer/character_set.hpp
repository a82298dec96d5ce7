#pragma once
// Sets of code points as regular expressions write them: general categories, ranges, \s, \d,
// scripts, nested sets and intersections. Categories come from utf8proc.
// Thread safety: pure functions and values.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace millrace::engine {

constexpr unsigned kCategories = 30;  // of utf8proc

// The general category of a code point, as utf8proc numbers it.
unsigned category_of(char32_t code_point);

struct CodePointRange {
  char32_t first, last;  // both included
};

// A code point belongs to the set if its category, one of the ranges or one of the members holds
// it, and each set of `limits` holds it, too; or if not, where the set is negated.
struct CharacterSet {
  std::uint32_t categories = 0;  // bit c stands for category c
  std::vector<CodePointRange> ranges = {};
  std::vector<CharacterSet> members = {};
  std::vector<CharacterSet> limits = {};
  bool negated = false;

  bool contains(char32_t code_point, unsigned category) const;
  // Appends the code points at which membership may change within a category.
  void boundaries(std::vector<char32_t>& out) const;

  static CharacterSet of(char32_t code_point);
  static CharacterSet spaces();  // Unicode's White_Space, which \s matches
  static CharacterSet digits();  // category Nd, which \d matches
  // Returns the set of a property such as "L", "Lu" or "Han"; nothing for an unknown name.
  static std::optional<CharacterSet> property(std::string_view name);
};

}  // namespace millrace::engine
