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
// Thread safety: the pool's owner thread.
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/core/kv/page_pool.hpp"
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

  struct Match {
    std::vector<PageId> pages;  // whole pages, first position first
    // The first `shared_tokens` tokens of `shared_page` come next, too: copy that page to go on.
    std::uint32_t shared_tokens = 0;
    PageId shared_page = 0;
    std::uint64_t writer = 0;    // of the promised page after `pages`; valid if promised > 0
    std::uint32_t promised = 0;  // promised pages after `pages`
  };

  explicit PrefixTree(PagePool& pool) : pool_(&pool) {}
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  // Returns the space of this name. All spaces must be destroyed before the tree.
  Space open(const std::string& name);

  // Finds the longest known beginning of `tokens` and marks it as used now. It takes no references,
  // so share the pages before any other call.
  Match find(const Space& space, std::span<const TokenId> tokens);

  // Promises that `writer` will write the whole pages of `tokens` that the space lacks into the
  // table's pages. Returns their nodes, first position first; none if the space has, somewhere on
  // the path, another page than the table.
  std::vector<Node*> promise(const Space& space, std::span<const TokenId> tokens,
                             const PageTable& table, std::uint64_t writer);
  void fulfil(Node& node);  // the page is written; its parent's must be, too
  // Removes pages that will not be written, given in the order of promise().
  void withdraw(std::span<Node* const> promised);

  // Adds the whole pages of `tokens`, all of which are written. If the space already has a page of
  // the path, the table takes that one and gives back its own. Stops before a page that another
  // sequence has promised.
  void publish(const Space& space, std::span<const TokenId> tokens, PageTable& table);
  void mark(const Space& space, std::span<const TokenId> tokens, const Checkpoint& checkpoint);

  // Frees up to `pages` idle pages and returns how many it freed.
  std::uint32_t evict(std::uint32_t pages);

  std::uint32_t size() const { return size_; }  // pages

  // Every page with its path, parents first; for tests and dumps.
  struct Entry {
    Tokens path;
    PageId page = 0;
    bool promised = false;
    std::uint64_t writer = 0;  // while promised
    Keep keep = Keep::plain;
    std::uint64_t used = 0;
  };
  std::vector<Entry> entries(const Space& space) const;
  void dump(std::ostream& out, const Space& space) const;

 private:
  Node* child(Node& node, std::span<const TokenId> page) const;
  Node& add(Node& parent, std::span<const TokenId> tokens, PageId page);
  void touch(Node& node);  // marks the node and the path to it as used now
  void remove(Node& leaf);
  void remove_all(Node& node);
  void match_inside(Node& node, std::span<const TokenId> rest, Match& match);
  bool evict_one();
  bool evict_one(Keep keep);
  void enlist(Node& node);
  void delist(Node& node);

  PagePool* pool_;
  std::map<std::string, std::weak_ptr<Node>> spaces_;
  // Leaves by last use. Each use has a new stamp and marks one path, so no two leaves share one.
  std::array<std::map<std::uint64_t, Node*>, 4> leaves_;
  std::uint64_t uses_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace millrace::engine
