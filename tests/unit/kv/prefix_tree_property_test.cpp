// Thousands of random operations on a small pool, like those of sequences that begin, wait, write,
// fork, are cancelled and end. Each result is compared with plain lists of whole paths.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "engine/core/kv/prefix_tree.hpp"

namespace millrace::engine {
namespace {

constexpr std::uint32_t page_tokens = 3, pool_pages = 40, space_count = 2;

using Entry = PrefixTree::Entry;
using Known = std::vector<std::pair<std::uint32_t, Entry>>;  // a space and one of its entries

bool begins(const Tokens& with, const Tokens& tokens) {
  return with.size() <= tokens.size() && std::equal(with.begin(), with.end(), tokens.begin());
}

class World {
 public:
  explicit World(std::uint32_t seed) : random_(seed) {
    for (std::uint32_t i = 0; i < space_count; ++i)
      spaces_.push_back(tree_.open(std::to_string(i)));
  }

  void act() {
    switch (below(8)) {
      case 0:
      case 1:
      case 2:
        return arrive();
      case 3:
      case 4:
      case 5:
        return write();
      case 6:
        return leave();
      default:
        return evict();
    }
  }

  void check() {
    const Known known = all();
    std::map<PageId, std::uint32_t> holders;
    for (const auto& [id, w] : writers_) {
      for (const PageId page : w.table.pages()) ++holders[page];
    }
    std::uint32_t idle = 0;
    for (const auto& [space, entry] : known) {
      ++holders[entry.page];
      idle += pool_.references(entry.page) == 1 ? 1 : 0;
      if (!entry.promised) {
        ASSERT_EQ(content_.at(entry.page), std::make_pair(space, entry.path));
      }
      if (entry.path.size() == page_tokens) continue;
      const Entry* parent =
          find(known, space, {entry.path.begin(), entry.path.end() - page_tokens});
      ASSERT_NE(parent, nullptr);
      ASSERT_GE(parent->used, entry.used);
      ASSERT_TRUE(entry.promised || !parent->promised);
      ASSERT_GE(pool_.references(parent->page), pool_.references(entry.page));
    }
    ASSERT_EQ(tree_.size(), known.size());
    ASSERT_EQ(pool_.idle(), idle);
    ASSERT_EQ(pool_.used(), holders.size());
    for (const auto& [page, count] : holders) ASSERT_EQ(pool_.references(page), count);
  }

  void end() {
    while (!writers_.empty()) leave();
    check();
    EXPECT_EQ(tree_.evict(pool_pages), pool_.total() - pool_.available());
    EXPECT_EQ(pool_.used(), 0u);
    EXPECT_GT(shared, 50u);
    EXPECT_GT(waited, 5u);
    EXPECT_GT(evicted, 50u);
  }

  std::uint64_t shared = 0, waited = 0, evicted = 0;

 private:
  struct Writer {
    std::uint32_t space = 0;
    Tokens tokens;
    PageTable table;
    std::uint32_t written = 0;
    std::vector<PrefixTree::Node*> promised;
    std::uint32_t promised_at = 0, fulfilled = 0;
  };

  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_()) % limit; }

  Known all() const {
    Known out;
    for (std::uint32_t s = 0; s < space_count; ++s) {
      for (const Entry& entry : tree_.entries(spaces_[s])) out.emplace_back(s, entry);
    }
    return out;
  }
  static const Entry* find(const Known& known, std::uint32_t space, const Tokens& path) {
    for (const auto& [s, entry] : known) {
      if (s == space && entry.path == path) return &entry;
    }
    return nullptr;
  }

  // Checks the result of find() with the list of all paths.
  void expect(const PrefixTree::Match& match, const Known& known, std::uint32_t space,
              const Tokens& tokens) const {
    std::map<std::size_t, const Entry*> path;  // by length
    for (const auto& [s, entry] : known) {
      if (s == space && begins(entry.path, tokens)) path[entry.path.size()] = &entry;
    }
    std::vector<PageId> pages;
    std::uint32_t promised = 0;
    for (const auto& [length, entry] : path) {
      if (entry->promised) {
        ++promised;
      } else {
        pages.push_back(entry->page);
      }
    }
    ASSERT_EQ(match.pages, pages);
    ASSERT_EQ(match.promised > 0, promised > 0);
    ASSERT_LE(match.promised, promised);
    std::size_t fits = 0;
    const std::size_t from = pages.size() * page_tokens;
    for (const auto& [s, entry] : known) {
      if (s != space || entry.promised || entry.path.size() != from + page_tokens) continue;
      const auto end = std::ranges::mismatch(entry.path, tokens).in1 - entry.path.begin();
      fits = std::max(fits, std::max(from, static_cast<std::size_t>(end)) - from);
    }
    ASSERT_EQ(match.shared_tokens, fits);
  }

  void arrive() {
    const std::uint32_t space = below(space_count);
    Tokens tokens;  // of two letters, so that many begin alike
    for (std::uint32_t i = 1 + below(20); i > 0; --i) tokens.push_back(below(8) == 0 ? 1 : 0);
    Writer w{space, tokens, PageTable(pool_), 0, {}, 0, 0};
    if (below(8) > 0) {  // the others compute all of it, as a prompt to be scored
      const auto limit = tokens.size() - 1;
      const Tokens known_part(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(limit));
      const Known known = all();
      const auto match = tree_.find(spaces_[space], known_part);
      expect(match, known, space, known_part);
      if (match.promised > 0) {
        ++waited;
        return;
      }
      for (const PageId page : match.pages) w.table.share(page);
      w.written = static_cast<std::uint32_t>(match.pages.size()) * page_tokens;
      shared += match.pages.size();
    }
    const std::uint32_t lacking = pool_.pages_for(tokens.size()) - w.table.size();
    if (lacking > pool_.available() + pool_.idle()) return;
    if (lacking > pool_.available()) evicted += tree_.evict(lacking - pool_.available());
    ASSERT_TRUE(w.table.cover(tokens.size())) << "an idle page could not be had";
    w.promised = tree_.promise(spaces_[space], tokens, w.table, ++writers_so_far_);
    w.promised_at = static_cast<std::uint32_t>(tokens.size() / page_tokens - w.promised.size());
    writers_.emplace(writers_so_far_, std::move(w));
  }

  Writer* any() {
    if (writers_.empty()) return nullptr;
    return &std::next(writers_.begin(), below(static_cast<std::uint32_t>(writers_.size())))->second;
  }

  void write() {
    Writer* w = any();
    if (w == nullptr) return;
    const auto size = static_cast<std::uint32_t>(w->tokens.size());
    const std::uint32_t to = std::min(size, w->written + 1 + below(6));
    for (; w->written < to; ++w->written) {  // a page's content is the path to it
      if (w->written % page_tokens != page_tokens - 1) continue;
      const PageId page = w->table.pages()[w->written / page_tokens];
      ASSERT_EQ(pool_.references(page), w->promised.empty() ? 1u : pool_.references(page));
      content_[page] = {w->space, Tokens(w->tokens.begin(), w->tokens.begin() + w->written + 1)};
    }
    while (w->fulfilled < w->promised.size() &&
           w->promised_at + w->fulfilled < w->written / page_tokens) {
      tree_.fulfil(*w->promised[w->fulfilled++]);
    }
  }

  void leave() {
    if (writers_.empty()) return;
    const auto at = std::next(writers_.begin(), below(static_cast<std::uint32_t>(writers_.size())));
    Writer& w = at->second;
    tree_.withdraw(std::span<PrefixTree::Node* const>(w.promised).subspan(w.fulfilled));
    w.tokens.resize(w.written);
    tree_.publish(spaces_[w.space], w.tokens, w.table);
    writers_.erase(at);
  }

  void evict() {
    Known known = all();
    const std::uint32_t count = below(4);
    std::uint32_t gone = 0;
    for (; gone < count; ++gone) {  // the least recently used page that is idle and a leaf
      auto victim = known.end();
      for (auto at = known.begin(); at != known.end(); ++at) {
        const bool leaf = std::ranges::none_of(known, [&](const auto& other) {
          return other.first == at->first && other.second.path.size() > at->second.path.size() &&
                 begins(at->second.path, other.second.path);
        });
        if (!leaf || pool_.references(at->second.page) > 1) continue;
        if (victim == known.end() || at->second.used < victim->second.used) victim = at;
      }
      if (victim == known.end()) break;
      known.erase(victim);
    }
    ASSERT_EQ(tree_.evict(count), gone);
    evicted += gone;
    const Known after = all();
    ASSERT_EQ(after.size(), known.size());
    for (std::size_t i = 0; i < after.size(); ++i) {
      ASSERT_EQ(after[i].second.path, known[i].second.path);
    }
  }

  std::mt19937 random_;
  PagePool pool_{pool_pages, page_tokens};
  PrefixTree tree_{pool_};
  std::vector<PrefixTree::Space> spaces_;
  std::map<std::uint64_t, Writer> writers_;
  std::uint64_t writers_so_far_ = 0;
  std::map<PageId, std::pair<std::uint32_t, Tokens>> content_;
};

TEST(PrefixTreeProperty, RandomLivesKeepEveryPromise) {
  for (std::uint32_t seed = 0; seed < 10; ++seed) {
    World world(seed);
    for (int i = 0; i < 2000; ++i) {
      world.act();
      world.check();
      if (testing::Test::HasFatalFailure()) FAIL() << "seed " << seed << ", operation " << i;
    }
    world.end();
  }
}

}  // namespace
}  // namespace millrace::engine
