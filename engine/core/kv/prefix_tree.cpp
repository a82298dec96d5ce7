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

// A page of a windowed group. It keeps its kind when the page goes and comes back.
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
  std::uint32_t index = 0;  // of the page on its path
  std::vector<WindowPage> windowed;
  std::set<std::unique_ptr<Node>, ByTokens> children;

  bool whole() const {
    return std::ranges::none_of(windowed, [](const auto& w) { return w.page == no_page; });
  }
};

PrefixTree::PrefixTree(CachePools& pools) : pools_(&pools), lists_(pools.groups()) {}

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
  const std::size_t page = pools_->page_tokens();
  Match match;
  path_.clear();
  Node* node = space.get();
  auto rest = tokens;
  for (; rest.size() >= page; rest = rest.subspan(page)) {
    Node* next = child(*node, rest.first(page));
    if (next == nullptr || next->promised) break;
    node = next;
    path_.push_back(node);
  }
  match.written = static_cast<std::uint32_t>(path_.size());
  const std::uint32_t known = known_pages();
  for (std::uint32_t i = 0; i < known; ++i) match.pages.push_back(path_[i]->page);
  Node& last = known == 0 ? *space : *path_[known - 1];
  touch(last);
  take_windows(last, match);
  match_inside(last, tokens.subspan(known * page), match);
  for (; rest.size() >= page; rest = rest.subspan(page)) {
    node = child(*node, rest.first(page));
    if (node == nullptr) break;
    if (match.promised == 0) match.writer = node->writer;
    if (!node->promised || node->writer != match.writer) break;
    ++match.promised;
  }
  return match;
}

// How many pages of path_ a sequence can go on from: the most for which every windowed group has
// the pages that the next token sees.
std::uint32_t PrefixTree::known_pages() {
  const auto size = static_cast<std::uint32_t>(path_.size());
  if (pools_->groups() == 1) return size;
  std::uint32_t known = 0;
  std::vector<std::uint32_t> from(pools_->groups() - 1);  // the first page of the run that ends here
  for (std::uint32_t i = 0; i < size; ++i) {
    bool enough = true;
    for (std::size_t group = 1; group < pools_->groups(); ++group) {
      if (path_[i]->windowed[group - 1].page == no_page) from[group - 1] = i + 1;
      const std::uint32_t seen = pools_->first_page(group, (i + 1) * pools_->page_tokens());
      enough = enough && from[group - 1] <= seen;
    }
    if (enough) known = i + 1;
  }
  return known;
}

// The pages of windowed groups that a token after this page sees.
void PrefixTree::take_windows(Node& node, Match& match) {
  for (std::size_t group = 1; group < pools_->groups(); ++group) {
    const std::uint32_t next = node.parent == nullptr ? 0 : node.index + 1;
    Run run{pools_->first_page(group, next * pools_->page_tokens()), {}};
    for (std::uint32_t i = run.first; i < next; ++i) {
      run.pages.push_back(path_[i]->windowed[group - 1].page);
      use_window(*path_[i], group);
    }
    match.windowed.push_back(std::move(run));
  }
}

std::vector<PageId> PrefixTree::whole(const Space& space, std::span<const TokenId> tokens) {
  const std::size_t page = pools_->page_tokens();
  std::vector<PageId> out;
  Node* node = space.get();
  for (; tokens.size() >= page; tokens = tokens.subspan(page)) {
    Node* next = child(*node, tokens.first(page));
    if (next == nullptr || next->promised || !next->whole()) break;
    node = next;
    out.push_back(node->page);
    for (const WindowPage& windowed : node->windowed) out.push_back(windowed.page);
  }
  touch(*node);
  return out;
}

// Finds the written child that shares the most first tokens with `rest`, of those that have a page
// of every group. It is one of the two between which `rest` would be inserted.
void PrefixTree::match_inside(Node& node, std::span<const TokenId> rest, Match& match) {
  rest = rest.first(std::min<std::size_t>(rest.size(), pools_->page_tokens()));
  Node* best = nullptr;
  const auto consider = [&](Node& candidate) {
    const std::uint32_t tokens = common(candidate.tokens, rest);
    if (tokens <= match.shared_tokens) return;
    match.shared_tokens = tokens;
    best = &candidate;
  };
  const auto written = [](const auto& candidate) {
    return !candidate->promised && candidate->whole();
  };
  const auto place = node.children.lower_bound(rest);
  const auto after = std::find_if(place, node.children.end(), written);
  if (after != node.children.end()) consider(**after);
  const auto before = std::find_if(std::reverse_iterator(place), node.children.rend(), written);
  if (before != node.children.rend()) consider(**before);
  if (best == nullptr) return;
  touch(*best);
  match.shared_pages.push_back(best->page);
  for (std::size_t group = 1; group < pools_->groups(); ++group) {
    match.shared_pages.push_back(best->windowed[group - 1].page);
    use_window(*best, group);
  }
}

std::vector<PrefixTree::Node*> PrefixTree::promise(const Space& space,
                                                   std::span<const TokenId> tokens,
                                                   const SequencePages& pages, std::uint64_t writer) {
  const std::size_t page = pools_->page_tokens();
  const PageTable& table = pages[0];
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

void PrefixTree::fulfil(Node& node, const SequencePages& pages) {
  assert(node.promised && !node.parent->promised);
  node.promised = false;
  adopt(node, pages);
}

void PrefixTree::refill(const Space& space, std::span<const TokenId> tokens,
                        const SequencePages& pages) {
  const std::size_t page = pools_->page_tokens();
  Node* node = space.get();
  for (; tokens.size() >= page; tokens = tokens.subspan(page)) {
    node = child(*node, tokens.first(page));
    if (node == nullptr || node->promised) return;
    adopt(*node, pages);
  }
}

void PrefixTree::withdraw(std::span<Node* const> promised) {
  for (std::size_t i = promised.size(); i > 0; --i) {
    assert(promised[i - 1]->promised);
    remove(*promised[i - 1]);
  }
}

void PrefixTree::publish(const Space& space, std::span<const TokenId> tokens,
                         SequencePages& pages) {
  const std::size_t page = pools_->page_tokens();
  PageTable& table = pages[0];
  Node* node = space.get();
  for (std::size_t i = 0; (i + 1) * page <= tokens.size(); ++i) {
    const auto here = tokens.subspan(i * page, page);
    Node* next = child(*node, here);
    if (next != nullptr && next->promised) break;
    if (next == nullptr) {
      next = &add(*node, here, table.pages()[i]);
    } else if (next->page != table.pages()[i]) {
      table.replace(static_cast<std::uint32_t>(i), next->page);
    }
    adopt(*next, pages);
    node = next;
  }
  touch(*node);
}

void PrefixTree::mark(const Space& space, std::span<const TokenId> tokens,
                      const Checkpoint& checkpoint) {
  const std::size_t page = pools_->page_tokens();
  Node* node = space.get();
  for (std::size_t i = 0; (i + 1) * page <= checkpoint.position; ++i) {
    node = child(*node, tokens.subspan(i * page, page));
    if (node == nullptr) return;
  }
  if (node->parent == nullptr) return;
  for (std::size_t group = 1; group < pools_->groups(); ++group) {
    const std::uint32_t first = pools_->first_page(group, (node->index + 1) * pools_->page_tokens());
    for (Node* at = node; at->parent != nullptr && at->index >= first; at = at->parent) {
      WindowPage& windowed = at->windowed[group - 1];
      if (windowed.keep >= checkpoint.keep) continue;
      if (windowed.page != no_page) list(group, windowed.keep).erase(windowed.used);
      windowed.keep = checkpoint.keep;
      if (windowed.page != no_page) list(group, windowed.keep).emplace(windowed.used, at);
    }
  }
  if (node->keep >= checkpoint.keep) return;
  delist(*node);
  node->keep = checkpoint.keep;
  enlist(*node);
}

std::uint32_t PrefixTree::evict(std::size_t group, std::uint32_t pages) {
  std::uint32_t freed = 0;
  while (freed < pages && evict_one(group)) ++freed;
  return freed;
}

bool PrefixTree::evict_one(std::size_t group) {
  const auto size = [&](Keep keep) { return list(group, keep).size(); };
  if (evict_one(group, Keep::plain)) return true;
  if (size(Keep::assistant) >= size(Keep::user) && evict_one(group, Keep::assistant)) return true;
  if (size(Keep::user) >= size(Keep::system) && evict_one(group, Keep::user)) return true;
  // The kind that should go has no idle page: take one of any kind.
  return evict_one(group, Keep::system) || evict_one(group, Keep::user) ||
         evict_one(group, Keep::assistant);
}

bool PrefixTree::evict_one(std::size_t group, Keep keep) {
  const PagePool& pool = (*pools_)[group];
  ByUse& known = list(group, keep);
  if (group == 0) {
    for (const auto& [used, leaf] : known) {
      if (pool.references(leaf->page) > 1) continue;
      remove(*leaf);
      return true;
    }
    return false;
  }
  if (pool.idle() == 0) return false;
  for (std::size_t left = known.size(); left > 0; --left) {
    Node& node = *known.begin()->second;
    if (pool.references(node.windowed[group - 1].page) == 1) {
      drop_window(node, group);
      return true;
    }
    use_window(node, group);  // a sequence uses it now; the next call need not look at it again
  }
  return false;
}

std::vector<PrefixTree::Entry> PrefixTree::entries(const Space& space) const {
  std::vector<Entry> out;
  const auto walk = [&](const auto& self, const Node& node, const Tokens& path) -> void {
    for (const auto& next : node.children) {
      Entry entry{path, next->page, next->promised, next->writer, next->keep, next->used, {}};
      for (const WindowPage& windowed : next->windowed) entry.windowed.push_back(windowed.page);
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
  node->index = parent.parent == nullptr ? 0 : parent.index + 1;
  node->windowed.resize(pools_->groups() - 1);
  Node& added = **parent.children.insert(std::move(node)).first;
  (*pools_)[0].keep(page);
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
  for (std::size_t group = 1; group < pools_->groups(); ++group) drop_window(leaf, group);
  (*pools_)[0].drop(leaf.page);
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
  const bool added = list(0, node.keep).emplace(node.used, &node).second;
  assert(added);
  static_cast<void>(added);
}

void PrefixTree::delist(Node& node) {
  if (node.parent == nullptr || !node.children.empty()) return;
  list(0, node.keep).erase(node.used);
}

// Takes the pages of windowed groups that the node lacks and the sequence has.
void PrefixTree::adopt(Node& node, const SequencePages& pages) {
  for (std::size_t group = 1; group < pools_->groups(); ++group) {
    WindowPage& windowed = node.windowed[group - 1];
    if (windowed.page != no_page || !pages[group].has(node.index)) continue;
    windowed.page = pages[group].at(node.index);
    windowed.used = ++uses_;
    (*pools_)[group].keep(windowed.page);
    list(group, windowed.keep).emplace(windowed.used, &node);
  }
}

void PrefixTree::drop_window(Node& node, std::size_t group) {
  WindowPage& windowed = node.windowed[group - 1];
  if (windowed.page == no_page) return;
  list(group, windowed.keep).erase(windowed.used);
  (*pools_)[group].drop(windowed.page);
  windowed.page = no_page;
}

void PrefixTree::use_window(Node& node, std::size_t group) {
  WindowPage& windowed = node.windowed[group - 1];
  ByUse& known = list(group, windowed.keep);
  known.erase(windowed.used);
  windowed.used = ++uses_;
  known.emplace(windowed.used, &node);
}

}  // namespace millrace::engine
