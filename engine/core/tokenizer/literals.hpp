#pragma once
// Finds literal tokens ("<|im_start|>") in text: the longest at a given place. A trie of bytes; a
// look at one place costs the depth reached, at most 1024.
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
  // Says whether a literal begins with this byte.
  bool begins(char byte) const { return first_[static_cast<std::uint8_t>(byte)] != 0; }
  // The longest literal that begins at `position`; its size is 0 where none does.
  Match match_at(std::string_view text, std::size_t position) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> children;
    bool ends = false;
    TokenId token = 0;
  };
  std::uint32_t child(std::uint32_t node, char byte) const;  // 0: none

  std::vector<Node> nodes_;           // 0 is the root
  std::vector<std::uint32_t> first_;  // the root's children by byte
};

}  // namespace millrace::engine
