#pragma once
// A node of the prefix tree: for its own sources only. Thread safety: the tree's owner thread.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <set>
#include <span>
#include <vector>

#include "engine/core/kv/prefix_tree.hpp"

namespace millrace::engine {

struct ByTokens {
  using is_transparent = void;
  static std::span<const TokenId> of(std::span<const TokenId> tokens) { return tokens; }
  template <class T>
  static std::span<const TokenId> of(const std::unique_ptr<T>& node) {
    return node->tokens;
  }
  template <class A, class B>
  bool operator()(const A& a, const B& b) const {
    const auto left = of(a), right = of(b);
    return std::ranges::lexicographical_compare(left, right);
  }
};

// A page of a windowed group, or a state. It keeps its kind when the page goes and comes back.
struct PrefixTree::WindowPage {
  PageId page = no_page;
  Keep keep = Keep::plain;
  std::uint64_t used = 0;
};

// The root of a space has no page and no parent.
struct PrefixTree::Node {
  Node* parent = nullptr;
  Tokens tokens;
  PageId page = 0;
  bool promised = false;
  Keep keep = Keep::plain;
  std::uint64_t writer = 0;  // while promised
  std::uint64_t used = 0;
  std::uint32_t index = 0;           // of the page on its path
  std::vector<WindowPage> windowed;  // of pools 1, 2 ...: the windowed groups, then the state
  std::set<std::unique_ptr<Node>, ByTokens> children;

  // Whether it has a page of each of the first so many pools.
  bool has_all(std::size_t pools) const {
    return std::ranges::none_of(windowed.begin(), windowed.begin() + pools - 1,
                                [](const auto& w) { return w.page == no_page; });
  }
};

}  // namespace millrace::engine
