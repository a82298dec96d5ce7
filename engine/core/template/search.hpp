#pragma once
// Finds one text in another in time that grows with their sizes alone, whatever they hold
// (Knuth, Morris and Pratt). std::string::find may take the product of the sizes.
// Thread safety: plain values.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace millrace::chat_template {

class Search {
 public:
  // `from_right` searches for the last place instead of the first. `needle` must outlive the
  // search.
  explicit Search(std::string_view needle, bool from_right = false);

  // Returns the place of the needle in `text`, or npos. An empty needle is at the near end.
  std::size_t in(std::string_view text) const;
  // Memory of a search for a text of this size.
  static std::size_t bytes(std::size_t needle_bytes) {
    return needle_bytes * sizeof(std::uint32_t);
  }

 private:
  char at(std::string_view s, std::size_t i) const { return s[from_right_ ? s.size() - 1 - i : i]; }

  std::string_view needle_;
  bool from_right_;
  std::vector<std::uint32_t> borders_;  // of each prefix, the length of its longest proper border
};

}  // namespace millrace::chat_template
