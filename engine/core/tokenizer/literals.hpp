#pragma once
// Finds literal tokens ("<|im_start|>") in text: at each place the longest, the leftmost first.
// A trie of bytes; a search costs the text's length times the depth reached, at most 1024.
// Thread safety: immutable.
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "schemas/base/generation.hpp"

namespace millrace::engine {

class Literals {
 public:
  struct Match {
    std::size_t position = 0, size = 0;  // size 0: none
    TokenId token = 0;
  };

  Literals();
  void add(std::string_view literal, TokenId token);  // not empty
  // The first match at or after `from`.
  Match find(std::string_view text, std::size_t from) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> children;
    bool ends = false;
    TokenId token = 0;
  };
  std::uint32_t child(std::uint32_t node, char byte) const;  // 0: none
  Match match_at(std::string_view text, std::size_t position) const;

  std::vector<Node> nodes_;           // 0 is the root
  std::vector<std::uint32_t> first_;  // the root's children by byte
};

}  // namespace millrace::engine
