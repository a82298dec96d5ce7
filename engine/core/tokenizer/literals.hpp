#pragma once
// Finds literals of tokens such as "<|im_start|>" in text, the longest at a given place. A trie of
// bytes: a lookup takes one step per byte of the longest literal at most, and never over 1024.
// Thread safety: immutable after the last add().
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
    std::size_t position = 0, size = 0;  // size 0: no match
    TokenId token = 0;
  };

  Literals();
  void add(std::string_view literal, TokenId token);  // `literal` must not be empty
  // Says whether a literal begins with this byte.
  bool begins(char byte) const { return first_[static_cast<std::uint8_t>(byte)] != 0; }
  // Returns the longest literal that begins at `position`.
  Match match_at(std::string_view text, std::size_t position) const;

 private:
  struct Node {
    std::vector<std::pair<char, std::uint32_t>> children;
    bool ends = false;
    TokenId token = 0;
  };
  std::uint32_t child(std::uint32_t node, char byte) const;  // 0: none

  std::vector<Node> nodes_;           // nodes_[0] is the root
  std::vector<std::uint32_t> first_;  // the root's child for each byte; 0: none
};

}  // namespace millrace::engine
