#include "engine/core/kv/prefix_tree.hpp"

#include <algorithm>
#include <cassert>
#include <compare>
#include <utility>

#include "engine/core/kv/prefix_node.hpp"

namespace millrace::engine {
namespace {

std::uint32_t common(std::span<const TokenId> a, std::span<const TokenId> b) {
  const auto end = std::ranges::mismatch(a, b).in1;
  return static_cast<std::uint32_t>(end - a.begin());
}

}  // namespace

PrefixTree::PrefixTree(CachePools& pools) : pools_(&pools), lists_(pools.pools()) {}

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
  for (std::uint32_t i = 0; i < match.written; ++i) {
    (i < known ? match.pages : match.lacking).push_back(path_[i]->page);
  }
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
  if (pools_->pools() == 1) return size;
  std::uint32_t known = 0;
  std::vector<std::uint32_t> from(pools_->groups() -
                                  1);  // the first page of the run that ends here
  for (std::uint32_t i = 0; i < size; ++i) {
    bool enough = !pools_->has_states() || path_[i]->windowed.back().page != no_page;
    for (std::size_t group = 1; group < pools_->groups(); ++group) {
      if (path_[i]->windowed[group - 1].page == no_page) from[group - 1] = i + 1;
      const std::uint32_t seen = pools_->first_page(group, (i + 1) * pools_->page_tokens());
      enough = enough && from[group - 1] <= seen;
    }
    if (enough) known = i + 1;
  }
  return known;
}

// The pages of windowed groups that a token after this page sees, and the state after it.
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
  if (!pools_->has_states() || node.parent == nullptr) return;
  match.state = node.windowed.back().page;
  use_window(node, pools_->groups());
}

HeldPages PrefixTree::whole(const Space& space, std::span<const TokenId> tokens) {
  const std::size_t page = pools_->page_tokens(), groups = pools_->groups();
  HeldPages out;
  std::size_t size = 0;  // up to a state
  Node* node = space.get();
  for (; tokens.size() >= page; tokens = tokens.subspan(page)) {
    Node* next = child(*node, tokens.first(page));
    if (next == nullptr || next->promised || !next->has_all(groups)) break;
    node = next;
    out.pages.push_back(node->page);
    for (std::size_t group = 1; group < groups; ++group) {
      out.pages.push_back(node->windowed[group - 1].page);
    }
    if (pools_->has_states() && !node->has_all(groups + 1)) continue;
    size = out.pages.size();
    if (pools_->has_states()) out.state = node->windowed.back().page;
  }
  out.pages.resize(size);
  touch(*node);
  return out;
}

bool PrefixTree::holds(const Space& space, std::span<const TokenId> tokens) const {
  const std::size_t page = pools_->page_tokens();
  Node* node = space.get();
  if (tokens.size() < page) return false;
  for (; tokens.size() >= page; tokens = tokens.subspan(page)) {
    node = child(*node, tokens.first(page));
    if (node == nullptr || node->promised) return false;
  }
  return true;
}

// Finds the written child that shares the most first tokens with `rest`, of those that have a page
// of every group. It is one of the two between which `rest` would be inserted. A state is that
// after a whole page, so models with states go on from whole pages only.
void PrefixTree::match_inside(Node& node, std::span<const TokenId> rest, Match& match) {
  if (pools_->has_states()) return;
  rest = rest.first(std::min<std::size_t>(rest.size(), pools_->page_tokens()));
  Node* best = nullptr;
  const auto consider = [&](Node& candidate) {
    const std::uint32_t tokens = common(candidate.tokens, rest);
    if (tokens <= match.shared_tokens) return;
    match.shared_tokens = tokens;
    best = &candidate;
  };
  const auto written = [](const auto& candidate) {
    return !candidate->promised && candidate->has_all(candidate->windowed.size() + 1);
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
                                                   const SequencePages& pages,
                                                   std::uint64_t writer) {
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
    const std::uint32_t first =
        pools_->first_page(group, (node->index + 1) * pools_->page_tokens());
    for (Node* at = node; at->parent != nullptr && at->index >= first; at = at->parent) {
      raise(*at, group, checkpoint.keep);
    }
  }
  if (pools_->has_states()) raise(*node, pools_->groups(), checkpoint.keep);
  if (node->keep >= checkpoint.keep) return;
  delist(*node);
  node->keep = checkpoint.keep;
  enlist(*node);
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
  node->windowed.resize(pools_->pools() - 1);
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
  for (std::size_t group = 1; group < pools_->pools(); ++group) drop_window(leaf, group);
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

}  // namespace millrace::engine
