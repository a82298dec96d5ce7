#include "engine/core/kv/prefix_tree.hpp"

#include <algorithm>
#include <cassert>
#include <compare>
#include <utility>

namespace millrace::engine {
namespace {

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

std::uint32_t common(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto end = std::ranges::mismatch(a, b).in1;
  return static_cast<std::uint32_t>(end - a.begin());
}

}  // namespace

// The root of a space has no page and no parent.
struct PrefixTree::Node {
  Node* parent = nullptr;
  Tokens tokens;
  PageId page = 0;
  bool promised = false;
  Keep keep = Keep::plain;
  std::uint64_t writer = 0;  // while promised
  std::uint64_t used = 0;
  std::set<std::unique_ptr<Node>, ByTokens> children;
};

PrefixTree::Space PrefixTree::open(const std::string& name) {
  std::weak_ptr<Node>& known = spaces_[name];
  if (Space space = known.lock()) return space;
  Space space(new Node, [this, name](Node* root) {
    const std::unique_ptr<Node> owned(root);
    remove_all(*root);
    spaces_.erase(name);
  });
  known = space;
  return space;
}

PrefixTree::Match PrefixTree::find(const Space& space, std::span<const TokenId> tokens) {
  const std::size_t page = pool_->page_tokens();
  Match match;
  Node* node = space.get();
  while (tokens.size() >= page) {
    Node* next = child(*node, tokens.first(page));
    if (next == nullptr || next->promised) break;
    node = next;
    match.pages.push_back(node->page);
    tokens = tokens.subspan(page);
  }
  touch(*node);
  match_inside(*node, tokens, match);
  while (tokens.size() >= page) {
    node = child(*node, tokens.first(page));
    if (node == nullptr) break;
    if (match.promised == 0) match.writer = node->writer;
    if (!node->promised || node->writer != match.writer) break;
    ++match.promised;
    tokens = tokens.subspan(page);
  }
  return match;
}

// Finds the written child that shares the most first tokens with `rest`. It is one of the two
// between which `rest` would be inserted.
void PrefixTree::match_inside(Node& node, std::span<const TokenId> rest, Match& match) {
  rest = rest.first(std::min<std::size_t>(rest.size(), pool_->page_tokens()));
  Node* best = nullptr;
  const auto consider = [&](Node& candidate) {
    const std::uint32_t tokens = common(candidate.tokens, rest);
    if (tokens <= match.shared_tokens) return;
    match.shared_tokens = tokens;
    match.shared_page = candidate.page;
    best = &candidate;
  };
  const auto written = [](const auto& candidate) { return !candidate->promised; };
  const auto place = node.children.lower_bound(rest);
  const auto after = std::find_if(place, node.children.end(), written);
  if (after != node.children.end()) consider(**after);
  const auto before = std::find_if(std::reverse_iterator(place), node.children.rend(), written);
  if (before != node.children.rend()) consider(**before);
  if (best != nullptr) touch(*best);
}

std::vector<PrefixTree::Node*> PrefixTree::promise(const Space& space,
                                                   std::span<const TokenId> tokens,
                                                   const PageTable& table, std::uint64_t writer) {
  const std::size_t page = pool_->page_tokens();
  Node* node = space.get();
  std::vector<Node*> promised;
  for (std::size_t i = 0; (i + 1) * page <= tokens.size(); ++i) {
    const auto here = tokens.subspan(i * page, page);
    Node* next = child(*node, here);
    if (next != nullptr && next->page != table.pages()[i]) return promised;
    if (next == nullptr) {
      next = &add(*node, here, table.pages()[i]);
      next->promised = true;
      next->writer = writer;
      promised.push_back(next);
    }
    node = next;
  }
  touch(*node);
  return promised;
}

void PrefixTree::fulfil(Node& node) {
  assert(node.promised && !node.parent->promised);
  node.promised = false;
}

void PrefixTree::withdraw(std::span<Node* const> promised) {
  for (std::size_t i = promised.size(); i > 0; --i) {
    assert(promised[i - 1]->promised);
    remove(*promised[i - 1]);
  }
}

void PrefixTree::publish(const Space& space, std::span<const TokenId> tokens, PageTable& table) {
  const std::size_t page = pool_->page_tokens();
  Node* node = space.get();
  for (std::size_t i = 0; (i + 1) * page <= tokens.size(); ++i) {
    const auto here = tokens.subspan(i * page, page);
    Node* next = child(*node, here);
    if (next != nullptr && next->promised) break;
    if (next == nullptr) {
      next = &add(*node, here, table.pages()[i]);
    } else if (next->page != table.pages()[i]) {
      table.replace(i, next->page);
    }
    node = next;
  }
  touch(*node);
}

void PrefixTree::mark(const Space& space, std::span<const TokenId> tokens,
                      const Checkpoint& checkpoint) {
  const std::size_t page = pool_->page_tokens();
  Node* node = space.get();
  for (std::size_t i = 0; (i + 1) * page <= checkpoint.position; ++i) {
    node = child(*node, tokens.subspan(i * page, page));
    if (node == nullptr) return;
  }
  if (node->parent == nullptr || node->keep >= checkpoint.keep) return;
  delist(*node);
  node->keep = checkpoint.keep;
  enlist(*node);
}

std::uint32_t PrefixTree::evict(std::uint32_t pages) {
  std::uint32_t freed = 0;
  while (freed < pages && evict_one()) ++freed;
  return freed;
}

bool PrefixTree::evict_one() {
  const auto leaves = [&](Keep keep) { return leaves_[static_cast<std::size_t>(keep)].size(); };
  if (evict_one(Keep::plain)) return true;
  if (leaves(Keep::assistant) >= leaves(Keep::user) && evict_one(Keep::assistant)) return true;
  if (leaves(Keep::user) >= leaves(Keep::system) && evict_one(Keep::user)) return true;
  // The kind that should go has no idle page: take one of any kind.
  return evict_one(Keep::system) || evict_one(Keep::user) || evict_one(Keep::assistant);
}

bool PrefixTree::evict_one(Keep keep) {
  for (const auto& [used, leaf] : leaves_[static_cast<std::size_t>(keep)]) {
    if (pool_->references(leaf->page) > 1) continue;
    remove(*leaf);
    return true;
  }
  return false;
}

std::vector<PrefixTree::Entry> PrefixTree::entries(const Space& space) const {
  std::vector<Entry> out;
  const auto walk = [&](const auto& self, const Node& node, const Tokens& path) -> void {
    for (const auto& next : node.children) {
      Entry entry{path, next->page, next->promised, next->writer, next->keep, next->used};
      entry.path.insert(entry.path.end(), next->tokens.begin(), next->tokens.end());
      out.push_back(entry);
      self(self, *next, entry.path);
    }
  };
  walk(walk, *space, {});
  return out;
}

PrefixTree::Node* PrefixTree::child(Node& node, std::span<const TokenId> page) const {
  const auto found = node.children.find(page);
  return found == node.children.end() ? nullptr : found->get();
}

PrefixTree::Node& PrefixTree::add(Node& parent, std::span<const TokenId> tokens, PageId page) {
  delist(parent);
  auto node = std::make_unique<Node>();
  node->parent = &parent;
  node->tokens.assign(tokens.begin(), tokens.end());
  node->page = page;
  node->used = ++uses_;
  Node& added = **parent.children.insert(std::move(node)).first;
  pool_->keep(page);
  enlist(added);
  ++size_;
  return added;
}

void PrefixTree::touch(Node& node) {
  ++uses_;
  for (Node* at = &node; at->parent != nullptr; at = at->parent) {
    delist(*at);
    at->used = uses_;
    enlist(*at);
  }
}

void PrefixTree::remove(Node& leaf) {
  assert(leaf.children.empty());
  Node& parent = *leaf.parent;
  delist(leaf);
  pool_->drop(leaf.page);
  parent.children.erase(parent.children.find(std::span<const TokenId>(leaf.tokens)));
  enlist(parent);
  --size_;
}

void PrefixTree::remove_all(Node& node) {
  while (!node.children.empty()) {
    Node& last = **std::prev(node.children.end());
    remove_all(last);
    remove(last);
  }
}

void PrefixTree::enlist(Node& node) {
  if (node.parent == nullptr || !node.children.empty()) return;
  const bool added = leaves_[static_cast<std::size_t>(node.keep)].emplace(node.used, &node).second;
  assert(added);
  static_cast<void>(added);
}

void PrefixTree::delist(Node& node) {
  if (node.parent == nullptr || !node.children.empty()) return;
  leaves_[static_cast<std::size_t>(node.keep)].erase(node.used);
}

}  // namespace millrace::engine
