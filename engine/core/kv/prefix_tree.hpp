#pragma once
// What the KV pool still knows: pages of finished and running sequences by the path of tokens that
// leads to them, so that whoever begins alike computes only what is new. Book-keeping only, as the
// page pool.
//
//   space ── [16 tokens] page 7 ─┬─ [16 tokens] page 3        a node is a whole page; its path is
//                                └─ [16 tokens] page 9 (promised)   all that the page depends on
//
// Children are ordered by their tokens and found by comparing tokens. There is no hash, so no
// collision can give a page to another path. A space holds what one fingerprint (model, KV policy,
// page layout) computed; spaces never share.
//
// A page is `promised` from the moment its writer is admitted until the step that wrote it has come
// back: who needs it waits instead of computing it again. Only written pages are handed out.
//
// The tree holds one reference of each page. A page that only the tree holds may be evicted, leaves
// first, for a path is of no use without its beginning. Which leaf: see Keep. A holder of a page
// holds the whole path to it, so every idle page of the pool can be had.
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

// What a page is the end of: what many are likely to begin with is evicted last. Plain pages go
// first. Of the others the lowest kind goes, but only while it has at least as many leaves as the
// kind above, so that no kind fills the pool; in a kind the least recently used goes first.
enum class Keep : std::uint8_t { plain, assistant, user, system };

// A place worth returning to: the end of a system prompt, a turn, a generation. Rounded down to
// whole pages.
struct Checkpoint {
  std::uint32_t position = 0;  // tokens before it
  Keep keep = Keep::plain;
};

class PrefixTree {
 public:
  struct Node;
  using Space = std::shared_ptr<Node>;  // its pages go when its last holder goes

  struct Match {
    std::vector<PageId> pages;  // whole pages, first position first
    std::uint32_t shared_tokens =
        0;  // of the page after them that also fit: copy it to go on there
    PageId shared_page = 0;
    std::uint64_t writer = 0;    // who promised the page after `pages`; only where promised > 0
    std::uint32_t promised = 0;  // pages after `pages` that are promised
  };

  explicit PrefixTree(PagePool& pool) : pool_(&pool) {}
  PrefixTree(const PrefixTree&) = delete;
  PrefixTree& operator=(const PrefixTree&) = delete;

  // The space of this name. All spaces must be gone before the tree goes.
  Space open(const std::string& name);

  // The longest known beginning of `tokens`. Refreshes what it finds; holds nothing, so share the
  // pages before anything else happens here.
  Match find(const Space& space, std::span<const TokenId> tokens);

  // The whole pages of `tokens` that the space lacks will be written into the table's pages by
  // `writer`. Returns them, first position first; none where the path leads over another's pages.
  std::vector<Node*> promise(const Space& space, std::span<const TokenId> tokens,
                             const PageTable& table, std::uint64_t writer);
  void fulfil(Node& node);                         // its page is written, and so is its parent's
  void withdraw(std::span<Node* const> promised);  // never written: in the order of promise()

  // Adds the whole pages of `tokens`, all of them written. Where the space already knows a page the
  // table takes that one and gives its own back. Ends before a page that another has promised.
  void publish(const Space& space, std::span<const TokenId> tokens, PageTable& table);
  void mark(const Space& space, std::span<const TokenId> tokens, const Checkpoint& checkpoint);

  // Frees up to `pages` idle pages; returns how many.
  std::uint32_t evict(std::uint32_t pages);

  std::uint32_t size() const { return size_; }  // pages

  // For tests and dumps: every page with its path, parents first.
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
  void touch(Node& node);  // and the path to it
  void remove(Node& leaf);
  void remove_all(Node& node);
  void match_inside(Node& node, std::span<const TokenId> rest, Match& match);
  bool evict_one();
  bool evict_one(Keep keep);
  void enlist(Node& node);
  void delist(Node& node);

  PagePool* pool_;
  std::map<std::string, std::weak_ptr<Node>> spaces_;
  // Leaves by last use. No two share a stamp: what one use stamps is one path.
  std::array<std::map<std::uint64_t, Node*>, 4> leaves_;
  std::uint64_t uses_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace millrace::engine
