#pragma once
// The pages of finished and running sequences, by the path of tokens that leads to them, so that a
// sequence with a known beginning computes only what is new. This is book-keeping on the host, as
// the page pool is.
//
//   space ── [16 tokens] page 7 ─┬─ [16 tokens] page 3        a node is a whole page; its path is
//                                └─ [16 tokens] page 9 (promised)   all that the page depends on
//
// Children are ordered by their tokens and found by comparing tokens. There is no hash, so no
// collision can give a page to another path. A space holds the pages of one fingerprint (model, KV
// policy, page layout); spaces never share pages.
//
// A page is `promised` from the admission of the sequence that will write it until the step that
// wrote it has come back. A sequence that needs the page waits instead of computing it again. Only
// written pages are handed out.
//
// The tree holds one reference of each page. It may evict a page that only the tree holds, leaves
// first, because a path is of no use without its beginning; Keep says which leaf. A sequence that
// holds a page holds the whole path to it, so every idle page of the pool can be evicted.
//
// With windowed cache groups (cache_pools.hpp) a node also has a page of each of them, as long as
// nothing evicts it: that may happen anywhere on a path, because a later token does not see it. A
// beginning of n pages is known if the tree has the n pages of group 0, and of each windowed group
// those that the next token sees. So a path may be known at its end and not in its middle.
//
// The states of recurrent layers cannot be cut back. So a node may also have a state, that after
// its last token, as a page of the states' pool, which may be evicted anywhere on a path, too; and
// a beginning is known only if the node at its end has one.
//
//   group 0   [0][1][2][3][4][5][6]     a window of two pages: 0, 1, 5, 6 and 7 pages are known;
//   windowed  [0] .  . [3][4][5][6]     to go on after 3 or 4, one would need page 1 or 2
//
// Thread safety: the pools' owner thread.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/core/kv/cache_pools.hpp"
#include "engine/core/kv/page_store.hpp"
#include "schemas/base/generation.hpp"

namespace millrace::engine {

// What ends in a page. Pages that other requests are likely to begin with are evicted last. Plain
// pages go first. Then the lowest kind goes, as long as it has at least as many leaves as the next
// kind, so that no kind fills the pool. Within a kind the least recently used page goes first.
enum class Keep : std::uint8_t { plain, assistant, user, system };

// A position where later requests may go on: the end of a system prompt, of a turn, of a
// generation. It is rounded down to whole pages.
struct Checkpoint {
  std::uint32_t position = 0;  // tokens before it
  Keep keep = Keep::plain;
};

class PrefixTree {
 public:
  struct Node;
  using Space = std::shared_ptr<Node>;  // the last owner frees its pages

  // Pages of one windowed group, from page `first` on.
  struct Run {
    std::uint32_t first = 0;
    std::vector<PageId> pages;
  };
  struct Match {
    std::vector<PageId> pages;  // whole pages of group 0, first position first
    std::vector<Run> windowed;  // of each windowed group, up to the same position
    PageId state = no_page;     // after these pages, for models with states
    // The first `shared_tokens` tokens of `shared_pages` (one of each group) come next, too: copy
    // these pages to go on.
    std::uint32_t shared_tokens = 0;
    std::vector<PageId> shared_pages;
    // The written pages of the path: `pages`, and those after them for which a windowed group's
    // pages or a state are lacking.
    std::uint32_t written = 0;
    std::vector<PageId> lacking;
    std::uint64_t writer = 0;    // of the promised page after these; valid if promised > 0
    std::uint32_t promised = 0;  // promised pages after these
  };

  explicit PrefixTree(CachePools& pools);
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  // Returns the space of this name. All spaces must be destroyed before the tree.
  Space open(const std::string& name);

  // Finds the longest known beginning of `tokens` and marks it as used now. It takes no references,
  // so share the pages before any other call.
  Match find(const Space& space, std::span<const TokenId> tokens);

  // Returns the longest beginning that the tree has whole in every group, of a model with states up
  // to a node that has one. Marks it as used now.
  HeldPages whole(const Space& space, std::span<const TokenId> tokens);

  // Whether the whole pages of `tokens`, at least one, are written in group 0. It marks nothing.
  bool holds(const Space& space, std::span<const TokenId> tokens) const;

  // Promises that `writer` will write the whole pages of `tokens` that the space lacks into the
  // table's pages of group 0. Returns their nodes, first position first; none if the space has,
  // somewhere on the path, another page than the table.
  std::vector<Node*> promise(const Space& space, std::span<const TokenId> tokens,
                             const SequencePages& pages, std::uint64_t writer);
  // The page is written, and its parent's is, too. The node takes the pages of windowed groups.
  void fulfil(Node& node, const SequencePages& pages);
  // Removes pages that will not be written, given in the order of promise().
  void withdraw(std::span<Node* const> promised);
  // Gives written nodes on the path the pages of windowed groups that they lack. All whole pages of
  // `tokens` are written.
  void refill(const Space& space, std::span<const TokenId> tokens, const SequencePages& pages);

  // Adds the whole pages of `tokens`, all of which are written. If the space already has a page of
  // the path, the table of group 0 takes that one and gives back its own. Stops before a page that
  // another sequence has promised.
  void publish(const Space& space, std::span<const TokenId> tokens, SequencePages& pages);
  void mark(const Space& space, std::span<const TokenId> tokens, const Checkpoint& checkpoint);

  // Frees up to `pages` idle pages of a pool and returns how many it freed. Group 0 loses leaves,
  // with their pages of the other pools; each of those loses any page.
  std::uint32_t evict(std::size_t group, std::uint32_t pages);

  std::uint32_t size() const { return size_; }  // pages of group 0

  // Every page with its path, parents first; for tests and dumps.
  struct Entry {
    Tokens path;
    PageId page = 0;
    bool promised = false;
    std::uint64_t writer = 0;  // while promised
    Keep keep = Keep::plain;
    std::uint64_t used = 0;
    std::vector<PageId> windowed;  // then the state; no_page where there is none
  };
  std::vector<Entry> entries(const Space& space) const;
  void dump(std::ostream& out, const Space& space) const;

 private:
  struct WindowPage;
  using ByUse = std::map<std::uint64_t, Node*>;  // by last use
  using Lists = std::array<ByUse, 4>;            // by Keep

  ByUse& list(std::size_t group, Keep keep) {
    return lists_[group][static_cast<std::size_t>(keep)];
  }
  Node* child(Node& node, std::span<const TokenId> page) const;
  Node& add(Node& parent, std::span<const TokenId> tokens, PageId page);
  void touch(Node& node);  // marks the node and the path to it as used now
  void remove(Node& leaf);
  void remove_all(Node& node);
  std::uint32_t known_pages();
  void take_windows(Node& node, Match& match);
  void match_inside(Node& node, std::span<const TokenId> rest, Match& match);
  bool evict_one(std::size_t group);
  bool evict_one(std::size_t group, Keep keep);
  void enlist(Node& node);
  void delist(Node& node);
  void adopt(Node& node, const SequencePages& pages);
  void drop_window(Node& node, std::size_t group);
  void use_window(Node& node, std::size_t group);
  void raise(Node& node, std::size_t group, Keep keep);

  CachePools* pools_;
  std::map<std::string, std::weak_ptr<Node>> spaces_;
  // Of group 0, the leaves: each use has a new stamp and marks one path, so no two leaves share
  // one. Of another pool, all nodes that have a page of it, by the page's own stamp.
  std::vector<Lists> lists_;
  std::vector<Node*> path_;  // of the find under way
  std::uint64_t uses_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace millrace::engine
