// Which pages of the prefix tree go first, and the pages of windowed groups and states.
#include <cassert>

#include "engine/core/kv/prefix_node.hpp"

namespace millrace::engine {

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

// Takes the pages of windowed groups, and the state, that the node lacks and the sequence has.
void PrefixTree::adopt(Node& node, const SequencePages& pages) {
  const auto of_sequence = [&](std::size_t group) -> std::optional<PageId> {
    if (group == pages.groups()) return pages.states().kept(node.index);
    return pages[group].has(node.index) ? std::optional(pages[group].at(node.index)) : std::nullopt;
  };
  for (std::size_t group = 1; group < pools_->pools(); ++group) {
    WindowPage& windowed = node.windowed[group - 1];
    const std::optional<PageId> page = of_sequence(group);
    if (windowed.page != no_page || !page) continue;
    windowed.page = *page;
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

// Gives a node's page of a windowed group, or its state, at least this kind.
void PrefixTree::raise(Node& node, std::size_t group, Keep keep) {
  WindowPage& windowed = node.windowed[group - 1];
  if (windowed.keep >= keep) return;
  if (windowed.page != no_page) list(group, windowed.keep).erase(windowed.used);
  windowed.keep = keep;
  if (windowed.page != no_page) list(group, windowed.keep).emplace(windowed.used, &node);
}

void PrefixTree::use_window(Node& node, std::size_t group) {
  WindowPage& windowed = node.windowed[group - 1];
  ByUse& known = list(group, windowed.keep);
  known.erase(windowed.used);
  windowed.used = ++uses_;
  known.emplace(windowed.used, &node);
}

}  // namespace millrace::engine
